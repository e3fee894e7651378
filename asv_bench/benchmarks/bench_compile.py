"""Measure compile time by phase: tracing, each pass of the pipeline, code generation, LLVM.

The inputs of a pass are those that it gets in the pipeline of the measured version. A pass that occurs several times
counts with all its occurrences. A phase that a version does not have is skipped. Nothing is launched.
"""

from __future__ import annotations

from collections.abc import Callable

from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.llvm.module import generate
from stackgrad.compiler import driver
from stackgrad.compiler.ad.grad_kernel import reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.launch.kernels import trace_function

from .common import Bench, start
from .workloads import WORKLOADS

KERNELS = ("three_fields", "sin_recurrence", "gated_nested", "csr_gather", "triangular", "walker")
"""Workloads whose first kernel is measured. Append only."""

PASSES = (
    "split_tasks",
    "lower_blocks",
    "lower_exits",
    "rewrite_versions",
    "fold_constants",
    "simplify",
    "common_subexpressions",
    "remove_dead_code",
    "promote_elements",
    "number_loops",
    "reverse",
    "count_stacks",
    "number_draws",
    "serialize_products",
    "drop_checks",
    "drop_unit_axes",
)
"""Names of passes of the pipeline of the gradient, with the reverse transform and the counting kernel. Append only."""

PRODUCTS = ("forward", "reverse", "counting")
"""Kernels that are handed to a backend. Append only."""

Step = Callable[[], object]


class Compile(Bench):
    """Set up a compile-time benchmark on the reference backend, so that its kernels are traced but not compiled.

    Sizes of the workloads do not matter.
    """

    repeat = (5, 15, 2.0)

    def trace(self, workload: str) -> None:
        """Trace a workload's first kernel; store its Python function and its source IR as attributes."""
        start("reference")
        kernel = WORKLOADS[workload].build("small").kernels[0]
        self.function: Callable[..., object] = kernel.__wrapped__
        self.source: Kernel = kernel.ir()


class Whole(Compile):
    """Measure each step of compilation from the Python function to the lowered kernel that a backend receives."""

    workloads = KERNELS
    params = (KERNELS,)
    param_names = ("workload",)

    def setup(self, workload: str) -> None:
        """Trace and lower the first kernel of the workload."""
        self.trace(workload)
        self.grad = driver.prepare_reverse(self.source).kernel
        self.text = print_kernel(self.grad)

    def time_trace(self, workload: str) -> None:
        """Trace the workload's first kernel from its Python function to IR."""
        trace_function(self.function)

    def time_forward(self, workload: str) -> None:
        """Lower the source IR to the forward kernel."""
        driver.prepare_forward(self.source)

    def time_reverse(self, workload: str) -> None:
        """Lower the source IR to the grad kernel and its counting kernel."""
        driver.prepare_reverse(self.source)

    def time_verify(self, workload: str) -> None:
        """Run the IR verifier on the grad kernel; in debug mode the compiler does so after every pass."""
        verify(self.grad, "adjoint")

    def time_print(self, workload: str) -> None:
        """Convert the IR of the grad kernel to text."""
        print_kernel(self.grad)

    def time_parse(self, workload: str) -> None:
        """Parse the grad kernel from its IR text."""
        parse_kernel(self.text)


class Passes(Compile):
    """Measure one compiler pass: the total time of all its calls in the pipeline that makes a grad kernel."""

    workloads = KERNELS
    params = (KERNELS, PASSES)
    param_names = ("workload", "pass")

    def setup(self, workload: str, name: str) -> None:
        """Record the input kernel of each call of the pass."""
        self.trace(workload)
        self.steps = steps(self.source, name)

    def time_pass(self, workload: str, name: str) -> None:
        """Run the pass on each recorded input kernel."""
        for step in self.steps:
            step()


class Native(Compile):
    """Measure the compilation of a lowered kernel for this CPU: LLVM IR generation, and all steps to machine code."""

    workloads = KERNELS
    params = (KERNELS, PRODUCTS)
    param_names = ("workload", "product")

    def setup(self, workload: str, product: str) -> None:
        """Lower the kernel, and compile another kernel so that LLVM is loaded."""
        self.trace(workload)
        self.kernel = lowered(self.source, product)
        self.backend = registry.get("cpu")
        self.options = Options(precise=False)
        self.backend.compile(driver.prepare_forward(self.source).kernel, self.options)

    def time_generate(self, workload: str, product: str) -> None:
        """Generate the LLVM IR of the lowered kernel."""
        generate(self.kernel, self.options, CPU)

    def time_compile(self, workload: str, product: str) -> None:
        """Compile the lowered kernel to callable machine code; the time includes the generation of its LLVM IR."""
        self.backend.compile(self.kernel, self.options)

    def track_statements(self, workload: str, product: str) -> int:
        """Count the statements of the lowered kernel, an exact number."""
        return sum(1 for _ in walk_kernel(self.kernel))

    track_statements.unit = "statements"  # type: ignore[attr-defined]


def steps(source: Kernel, name: str) -> list[Step]:
    """Return the calls of the named pass in `prepare_reverse` as callables, each bound to its input kernel.

    Raises:
        NotImplementedError: the pipeline does not call the pass.
    """
    passes = dict([*driver.BEFORE_REVERSE, *driver.TIDY])
    passes["reverse"] = reverse
    found: list[Step] = []
    last = source

    def watch(step: str, after: Kernel) -> None:
        nonlocal last
        if step.partition(" ")[0] == name:
            found.append(lambda before=last: passes[name](before))  # type: ignore[misc]
        last = after

    grad = driver.prepare_reverse(source, trace=watch).kernel
    if name == "count_stacks":
        found.append(lambda: driver.count_stacks(grad))
    if not found:
        raise NotImplementedError(f"this version has no pass {name}")
    return found


def lowered(source: Kernel, product: str) -> Kernel:
    """Lower a source kernel to its forward kernel, its grad kernel or its counting kernel, as `product` says.

    Raises:
        NotImplementedError: the gradient needs no counting kernel.
    """
    if product == "forward":
        return driver.prepare_forward(source).kernel
    reverse = driver.prepare_reverse(source)
    kernel = reverse.counting if product == "counting" else reverse.kernel
    if kernel is None:
        raise NotImplementedError("this gradient needs no counting kernel")
    return kernel
