"""Fields of matrices of one column as NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


@pytest.mark.parametrize("layout", [sg.Layout.AOS, sg.Layout.SOA])
def test_one_column_is_left_out_unless_kept(layout: sg.Layout) -> None:
    sg.init(arch=sg.reference)
    column, vector = sg.Matrix.field(2, 1, sg.f32, 3, layout=layout), sg.Vector.field(2, sg.f32, 3, layout=layout)
    content = np.arange(6, dtype=np.float32).reshape(3, 2)
    column.from_numpy(content)
    vector.from_numpy(content[..., None])
    for found in (column, vector):
        assert found.to_numpy().tolist() == content.tolist()
        assert found.to_numpy(keep_dims=True).shape == (3, 2, 1)
        assert found.to_numpy(copy=False).base is not None
    assert column[1][1, 0] == 3.0
    assert sg.Matrix.field(2, 3, sg.f32, 3).to_numpy(keep_dims=True).shape == (3, 2, 3)
    with pytest.raises(sg.FieldError):
        sg.Matrix.field(2, 3, sg.f32, 3).from_numpy(np.zeros((3, 2), np.float32))


def test_columns_in_kernels() -> None:
    sg.init(arch=sg.cpu)
    column = sg.Matrix.field(2, 1, sg.f64, 3)

    @sg.kernel
    def k():
        for i in column:
            column[i] = sg.Matrix([[i], [2.0 * i]])

    k()
    assert column.to_numpy().tolist() == [[0, 0], [1, 2], [2, 4]]
