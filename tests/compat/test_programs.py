"""Test that programs of Quadrants and Taichi run unchanged: imports, submodules, options, errors, patched methods."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

from compat_programs import run  # noqa: E402

IMPORTS = """
import sys
import quadrants as qd
import quadrants.lang.impl as whole
from quadrants.lang import impl
from quadrants.lang.exception import QuadrantsRuntimeError
from quadrants.types.primitive_types import f32
from quadrants.algorithms import sort, sort_scratch_slots
from quadrants._lib import core
from quadrants import *
import stackgrad as sg

assert whole is impl and qd.lang.impl is impl and sys.modules["quadrants.lang"] is qd.lang
assert QuadrantsRuntimeError is qd.QuadrantsRuntimeError and f32 is sg.f32 and field is sg.field
assert qd.lang.matrix.Matrix is sg.Matrix and qd.lang.kernel_impl.kernel is sg.kernel
assert qd.__version__ == (1, 3, 3) and core.get_version_major() == 1
assert qd.cfg is None
qd.init(arch=qd.cpu, default_fp=qd.f64, random_seed=3, offline_cache=False)
assert qd.cfg.arch == qd.cpu == qd.x64 and qd.cfg.random_seed == 3
assert impl.get_runtime().default_fp == qd.f64 and impl.current_cfg().default_ip == qd.i32
assert qd.lang.impl.get_max_shared_memory_bytes(is_lowerbound_ok=True) == 0
qd.lang._template_mapper.__builtins__["__debug__"] = False
assert isinstance(qd.field(qd.f32, 3), qd.Field) and isinstance(qd.ndarray(qd.f32, 3), qd.Ndarray)
print(sys.argv[1:], __name__)
"""

KERNEL = """
import taichi as ti
import taichi.math as tm

ti.init(arch=ti.x64)
x = ti.Vector.field(2, ti.f32, shape=4, needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)

@ti.func
def square(v: ti.template()):
    return tm.dot(v, v)

@ti.kernel
def run(scale: float):
    for i in x:
        if ti.static(ti.lang.impl.get_runtime().default_fp == ti.f32):
            loss[None] += square(x[i]) * scale

x.fill(1.0)
with ti.ad.Tape(loss):
    run(3.0)
print(loss[None], x.grad[1].to_numpy().tolist())
"""

EARLY = """
import taichi as ti

ti.init(arch=ti.gpu, flatten_if=True, device_memory_GB=3.5, default_fp=ti.f32)
ti.set_gdb_trigger()
x, loss = ti.Vector.field(2, dtype=ti.f32), ti.field(dtype=ti.f32)
ti.root.dense(ti.i, 2).place(x)
ti.root.place(loss)
ti.root.lazy_grad()

@ti.kernel
def run():
    for i in x:
        loss[None].atomic_add(x[i](0) * 3 + x[i](1) * 4)

before = ti.get_runtime().prog.get_total_compilation_time()
x.fill(1.5)
with ti.Tape(loss):
    run()
after = ti.get_runtime().prog.get_total_compilation_time()
print(0 <= before < after, after < 60, loss[None], x.grad.to_numpy().tolist())
"""

ERRORS = """
import pickle
import quadrants as qd

qd.init(debug=True)
x = qd.field(qd.f32, 4)

@qd.kernel
def outside(i: qd.i32):
    x[i] = 1.0

@qd.kernel
def mistyped():
    x[0] = qd.Vector([1.0, 2.0])

@qd.kernel
def misplaced():
    x[0, 1] = 1.0

@qd.kernel
def unknown():
    x[0] = there_is_no_such_name

def caught(kind, call):
    try:
        call()
    except kind as error:
        return type(pickle.loads(pickle.dumps(error))).__name__
    raise SystemExit(f"{kind} was not raised")

print(caught(qd.QuadrantsRuntimeError, lambda: outside(7)))
print(caught(qd.QuadrantsAssertionError, lambda: outside(7)))
print(caught(RuntimeError, lambda: outside(7)))
print(caught(qd.QuadrantsCompilationError, mistyped), caught(qd.QuadrantsTypeError, mistyped))
print(caught(qd.QuadrantsCompilationError, unknown), caught(NameError, unknown))
print(caught(TypeError, mistyped), caught(IndexError, misplaced))
print(caught(qd.QuadrantsRuntimeTypeError, lambda: outside("a")), caught(TypeError, lambda: outside("a")))
print(caught(qd.QuadrantsRuntimeError, lambda: qd.field(qd.f32, -1)))
try:
    raise qd.QuadrantsRuntimeError("own")
except qd.QuadrantsRuntimeError as error:
    print(error)
"""

REFUSED = """
import taichi as ti

gui, window, mesh = ti.GUI, ti.ui.Window, ti.Mesh
assert not isinstance(3, ti.Mesh)
for use in (lambda: gui("title"), lambda: window("title", (1, 1)), lambda: ti.simt.warp.shfl_xor_f32(),
            lambda: ti.tools.PLYWriter(), lambda: ti.graph.GraphBuilder(), lambda: ti.root.pointer(ti.i, 4)):
    try:
        use()
    except Exception as error:
        print(type(error).__name__, "cure:" in str(error))
try:
    ti.there_is_no_such_name
except AttributeError as error:
    print(error)
try:
    ti.lang.inside_kernel_of_old
except AttributeError as error:
    print(error)
try:
    from taichi import nothing_of_this_kind
except ImportError:
    print("ImportError")
"""

PATCHED = """
import quadrants as qd
from quadrants.lang import impl

seen = []
before = impl.PyQuadrants.materialize

def materialize(self):
    before(self)
    for field, value in pending:
        field.fill(value)
    pending.clear()
    self.prog.synchronize()

pending = []
impl.PyQuadrants.materialize = materialize
qd.init()
x = qd.field(qd.f32, 3)
pending.append((x, 2.5))

@qd.kernel
def total() -> qd.f32:
    found = 0.0
    for i in range(3):
        found += x[i]
    return found

print(total())
y = qd.field(qd.f32, 2)
pending.append((y, 4.0))
print(y[0], y.to_numpy().tolist())
"""


@pytest.mark.expensive
def test_imports(tmp_path: Path) -> None:
    assert "['a', '-b'] __main__" in run(tmp_path, IMPORTS, arguments=("a", "-b"))


@pytest.mark.expensive
def test_a_program_with_a_gradient(tmp_path: Path) -> None:
    assert run(tmp_path, KERNEL, "taichi").splitlines()[0] == "24.0 [6.0, 6.0]"


@pytest.mark.expensive
def test_names_of_early_taichi(tmp_path: Path) -> None:
    assert run(tmp_path, EARLY, "taichi").splitlines()[-1] == "True True 21.0 [[3.0, 4.0], [3.0, 4.0]]"


@pytest.mark.expensive
def test_errors_are_caught_under_the_names_of_the_peer(tmp_path: Path) -> None:
    assert run(tmp_path, ERRORS).split() == [
        "OutOfBounds",
        "OutOfBounds",
        "OutOfBounds",
        "KernelTypeError",
        "KernelTypeError",
        "KernelNameError",
        "KernelNameError",
        "KernelTypeError",
        "KernelIndexError",
        "CallError",
        "CallError",
        "FieldError",
        "own",
    ]


def test_what_is_refused_has_a_cure(tmp_path: Path) -> None:
    *uses, unknown, inner, imported = run(tmp_path, REFUSED, "taichi").splitlines()
    assert uses == ["Unsupported True"] * 6
    assert "'there_is_no_such_name'" in unknown and "'inside_kernel_of_old'" in inner and imported == "ImportError"


@pytest.mark.expensive
def test_a_replaced_materialize_is_called_before_fields_are_used(tmp_path: Path) -> None:
    assert run(tmp_path, PATCHED).splitlines() == ["7.5", "4.0 [4.0, 4.0]"]


@pytest.mark.rotating
@pytest.mark.parametrize("arch", ["metal", "opengl", "[ti.dx11, ti.gles]"])
def test_an_arch_that_is_not_here_becomes_the_cpu(tmp_path: Path, arch: str) -> None:
    name = arch if arch.startswith("[") else f"ti.{arch}"
    text = f"import taichi as ti\nti.init(arch={name})\nprint(ti.cfg.arch)\n"
    said = run(tmp_path, text, "taichi")
    assert said.startswith("cpu\n") and "RuntimeWarning" in said and "the CPU runs the kernels instead" in said


def test_enable_fallback_false_raises(tmp_path: Path) -> None:
    text = """
import quadrants as qd
try:
    qd.init(arch=qd.metal, enable_fallback=False)
except qd.QuadrantsRuntimeError as error:
    print(error)
"""
    assert "no kernel runs on metal here; cure: use sg.cpu" in run(tmp_path, text)


def test_options_of_the_environment(tmp_path: Path) -> None:
    text = """
import quadrants as qd
qd.init(random_seed=5)
cfg = qd.cfg
print(cfg.arch, cfg.default_fp.name, cfg.debug, cfg.random_seed)
"""
    given = {"QD_ARCH": "python", "QD_DEFAULT_FP": "64", "QD_DEBUG": "1", "TI_RANDOM_SEED": "9"}
    assert run(tmp_path, text, given=given).splitlines()[0] == "reference f64 True 5"


def test_extensions_of_an_arch(tmp_path: Path) -> None:
    text = """
import quadrants as qd
from quadrants._lib import core
from quadrants.lang.misc import is_extension_supported

assert core.is_extension_supported is is_extension_supported
for arch in (qd.x64, qd.cuda, qd.vulkan, qd.metal):
    found = (qd.extension.adstack, qd.extension.data64, qd.extension.assertion, qd.extension.sparse)
    print(arch.name, *(is_extension_supported(arch, name) for name in found))
"""
    *first, metal = run(tmp_path, text).splitlines()
    assert [line.split(maxsplit=1)[1] for line in first] == ["True True True False"] * 3
    assert metal == "metal True False True False"


@pytest.mark.expensive
def test_names_that_tests_of_the_peer_use(tmp_path: Path) -> None:
    text = """
import quadrants as qd
from quadrants.lang import impl
from quadrants.lang.misc import get_host_arch_list, is_extension_supported

qd.init(arch=get_host_arch_list())
print(get_host_arch_list() == [qd.cpu], is_extension_supported(qd.cpu, qd.extension.bls))

@qd.kernel
def internal():
    impl.call_internal("test_stack")

try:
    internal()
except qd.QuadrantsCompilationError as error:
    print(error)
"""
    found = run(tmp_path, text)
    assert found.startswith("True True\n") and "cure: remove it" in found
    assert "program.py:11:5: `quadrants.lang.impl.call_internal` is a part of another compiler" in found


def test_every_vector_is_true_as_in_the_peer(tmp_path: Path) -> None:
    text = """
import quadrants as qd

qd.init()
x = qd.ndarray(qd.math.vec2, 3)
zeros = qd.Vector([0.0, 0.0])
print(bool(zeros), bool(qd.Vector([0])), bool(qd.Matrix([[0, 0]])), not x[0])
if x[0] != zeros:
    print("unequal")
print((x[0] == zeros).all(), zeros.any())
"""
    said = run(tmp_path, text)
    assert "True True True False\nunequal\nTrue False\n" in said
    assert "program.py:7: RuntimeWarning: every vector and matrix counts as true" in said
    assert "program.py:8: RuntimeWarning" in said and "cure: use .all() or .any()" in said
    assert "program.py:10" not in said


def test_a_wrong_variable_names_itself(tmp_path: Path) -> None:
    text = "import quadrants as qd\ntry:\n    qd.init()\nexcept RuntimeError as error:\n    print(error)\n"
    assert "QD_DEFAULT_FP cannot be '48'" in run(tmp_path, text, given={"QD_DEFAULT_FP": "48"})


def test_functions_called_at_a_reset(tmp_path: Path) -> None:
    text = """
import quadrants as qd
seen = []
qd.lang.impl.on_reset(lambda: seen.append(1))
qd.init()
qd.reset()
print(seen, qd.cfg)
"""
    assert run(tmp_path, text).splitlines()[0] == "[1, 1] None"


@pytest.mark.expensive
def test_the_profiler_counts_from_init_on(tmp_path: Path) -> None:
    text = """
import taichi as ti
ti.init(kernel_profiler=True)
x = ti.field(ti.f32, 10)

@ti.kernel
def fill():
    for i in x:
        x[i] = i

for _ in range(3):
    fill()
found = ti.profiler.query_kernel_profiler_info("fill")
print(found.counter, 0 < found.min <= found.avg <= found.max, ti.profiler.get_kernel_profiler_total_time() > 0)
ti.profiler.clear_kernel_profiler_info()
print(ti.profiler.query_kernel_profiler_info("fill").counter)
"""
    assert run(tmp_path, text, "taichi").splitlines() == ["3 True True", "0"]


def test_a_module_as_a_program(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys, taichi as ti\nprint(ti.__version__, sys.argv[1:], __name__)\n")
    command = [sys.executable, "-m", "stackgrad.compat", "taichi", "-m", "job", "--fast"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ended.stdout == "(1, 7, 4) ['--fast'] __main__\n", ended.stderr


@pytest.mark.parametrize("arguments", [[], ["numpy", "x.py"], ["quadrants"], ["quadrants", "-m"]])
def test_a_call_that_is_not_understood(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "stackgrad.compat", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2 and ended.stderr.startswith("usage: python -m stackgrad.compat {quadrants,taichi}")


def test_an_import_is_enough(tmp_path: Path) -> None:
    text = """
import stackgrad.compat.taichi as first
import taichi as ti
import stackgrad.compat.quadrants
import quadrants as qd
print(first is ti, ti.field is qd.field)
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "True True\n", ended.stderr


def test_a_peer_that_is_imported_already_is_not_replaced() -> None:
    text = """
import sys, types
sys.modules["taichi"] = types.ModuleType("taichi")
import stackgrad.compat.taichi
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert "install before the first import of it" in ended.stderr
