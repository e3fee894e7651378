"""init: options and their mistakes, absent backends, and what import loads."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback

import pytest
import stackgrad as sg
from stackgrad.backends.base import Probe
from stackgrad.compiler.ir.types import SCALARS
from stackgrad.runtime.dialect_options import OPTIONS
from stackgrad.runtime.session import RUNTIME


def test_settings() -> None:
    sg.init(arch="reference", default_fp=sg.f64, default_ip=sg.i64, debug=True, random_seed=7, precise=True)
    s = RUNTIME.settings
    assert (s.arch, s.default_fp, s.default_ip, s.debug, s.random_seed) == ("reference", sg.f64, sg.i64, True, 7)
    assert RUNTIME.options.debug and RUNTIME.options.precise
    assert RUNTIME.backend.name == "reference"


def test_python_types_as_defaults() -> None:
    sg.init(arch=sg.reference, default_fp=float, default_ip=int)
    assert (RUNTIME.settings.default_fp, RUNTIME.settings.default_ip) == (sg.f64, sg.i64)


def test_options_of_the_dialect_are_accepted() -> None:
    for option in OPTIONS:
        sg.init(arch=sg.reference, **{option: True})


def test_an_option_without_effect_is_noted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="stackgrad"):
        sg.init(arch=sg.reference, flatten_if=True, check_out_of_bound=True)
    assert [record.getMessage() for record in caplog.records] == [
        "init: flatten_if has no effect: the pipeline is fixed"
    ]


def test_fallback_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.backends import registry

    real = registry.get
    monkeypatch.setattr(registry, "get", lambda name: Absent() if name == "cuda" else real(name))
    with pytest.warns(RuntimeWarning, match="no driver libcuda.so.1.*the CPU runs the kernels instead"):
        sg.init(arch=sg.cuda, enable_fallback=True)
    assert RUNTIME.settings.arch == "cpu" and RUNTIME.backend.name == "cpu"


def test_options_with_a_meaning_here() -> None:
    sg.init(arch=sg.reference, check_out_of_bound=True, fast_math=False)
    assert RUNTIME.options.debug and RUNTIME.options.precise
    sg.init(arch=sg.reference)
    assert not RUNTIME.options.debug and not RUNTIME.options.precise


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ad_stack_sise": 0}, "did you mean ad_stack_size"),
        ({"defualt_fp": sg.f32}, "did you mean default_fp"),
        ({"qqq": 1}, "its own options are arch"),
        ({"arch": "cpuu"}, "did you mean cpu"),
        ({"arch": 3}, "one of cpu, reference"),
        ({"default_fp": sg.i32}, "one of sg.f16, sg.f32, sg.f64"),
        ({"default_ip": sg.f32}, "one of sg.i8"),
        ({"default_ip": float}, "one of sg.i8"),
    ],
)
def test_mistakes(options: dict[str, object], words: str) -> None:
    generation = RUNTIME.generation
    with pytest.raises(sg.OptionError) as caught:
        sg.init(**options)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert RUNTIME.generation == generation


class Absent:
    """A backend that says it cannot run."""

    def probe(self) -> Probe:
        return Probe(False, reason="no driver libcuda.so.1", cure="install an NVIDIA driver")


def test_absent_backend_is_one_line_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.backends import registry

    x = sg.field(sg.f32, ())
    monkeypatch.setattr(registry, "get", lambda name: Absent())
    with pytest.raises(sg.DeviceError) as caught:
        sg.init(arch=sg.cuda)
    assert str(caught.value) == "cuda is not available here: no driver libcuda.so.1; cure: install an NVIDIA driver"
    assert x[None] == 0, "a failed init leaves the runtime as it was"


def test_backend_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.backends import registry

    def fail(name: str) -> None:
        raise ImportError("No module named 'cuda'\nsecond line")

    monkeypatch.setattr(registry, "get", fail)
    with pytest.raises(sg.DeviceError) as caught:
        sg.init(arch=sg.cuda)
    assert "No module named 'cuda'" in str(caught.value) and "\n" not in str(caught.value)


def test_arch_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKGRAD_ARCH", "reference")
    sg.init()
    assert RUNTIME.settings.arch == "reference"


def test_the_package_of_the_interpreter_is_an_arch() -> None:
    import stackgrad.reference

    sg.init(arch=stackgrad.reference)
    assert RUNTIME.settings.arch == "reference"


def test_first_use_initializes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKGRAD_ARCH", "reference")
    sg.reset()
    assert not RUNTIME.initialized
    assert sg.field(float, ()).dtype == sg.f32
    assert RUNTIME.initialized


def test_sync_and_report_without_launches() -> None:
    sg.sync()
    report = sg.adstack_report()
    assert (report.current, report.tasks) == (0, ())
    assert "real" in str(report)


# ---- names --------------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_code_generator() -> None:
    heavy = "print([m for m in sys.modules if m.split('.')[0] in ('llvmlite', 'jax', 'jaxlib', 'numpy')])"
    assert run_python(f"import sys, stackgrad as sg; sg.__version__; sg.cpu; {heavy}") == "[]"


def test_fields_on_the_reference_load_no_code_generator() -> None:
    code = """
import sys, stackgrad as sg
sg.init(arch=sg.reference)
sg.field(sg.f32, 3, needs_grad=True).fill(1)
sg.ad.clear_all_gradients()
print([m for m in sys.modules if m.split('.')[0] in ('llvmlite', 'jax', 'jaxlib')])
"""
    assert run_python(code) == "[]"


def test_names() -> None:
    from stackgrad.compiler.frontend.functions import EXPORTS

    for name in [*sg.__dir__(), *EXPORTS]:
        assert getattr(sg, name) is not None, name
    for name, scalar in SCALARS.items():
        assert getattr(sg, name) is scalar
    assert callable(sg.field) and callable(sg.kernel) and sg.ad.Tape


def test_no_module_hides_a_public_name() -> None:
    """A submodule becomes an attribute of the package when it is imported, over a lazy name of its own."""
    from stackgrad import _HOMES

    code = (
        "import importlib, pkgutil, stackgrad as sg\n"
        "for m in pkgutil.iter_modules(sg.__path__):\n"
        "    if m.name not in ('cli', '__main__'): importlib.import_module('stackgrad.' + m.name)\n"
        f"print([n for n in {sorted(_HOMES)} if type(getattr(sg, n)).__name__ == 'module'])"
    )
    assert run_python(code) == "[]"


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean sg.field"):
        sg.feild  # noqa: B018
    assert not hasattr(sg, "__wrapped__")


def test_names_that_are_not_there_cost_nothing_until_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frontend asks the module for the marks of fields and kernels, many times for each kernel."""
    asked: list[str] = []

    def counted(name: str, known: list[str]) -> str:
        asked.append(name)
        return "did you mean something?"

    monkeypatch.setattr("stackgrad.runtime.usage_errors.close_names", counted)
    x = sg.field(sg.f32, 3)

    @sg.kernel
    def run() -> None:
        for i in x:
            x[i] = sg.sin(x[i]) + sg.exp(x[i])

    run()
    assert not hasattr(sg, "nothing") and asked == []
    with pytest.raises(AttributeError) as caught:
        sg.nothing  # noqa: B018
    assert str(caught.value) == "module 'stackgrad' has no attribute 'nothing'. did you mean something?"
    assert asked == ["nothing"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is AttributeError and str(again) == str(caught.value)
    shown = traceback.format_exception_only(caught.value)
    assert shown == [f"AttributeError: {caught.value}\n"]
