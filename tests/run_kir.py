"""The pytest collector for .kir files, which hold kernels in IR text with directives in comments.

Below a kernel stand
    run: x=[0.0, -0.0, inf], n=3, draws 7 1 -> y=[...], prints "..."
        arrays and scalars before, key of the draws; arrays afterwards, lines printed (in any order)
    grad: x=[...], seed y=[...] -> x.grad=[...]   // no-jax: reason
        the forward kernel, then the reverse kernel with these adjoints, under both lowerings (those below
        tests/ad on the reference under every policy); JAX must agree
    trap: x=[...] -> OutOfBounds "part of the message"
        the error on the reference and in debug builds; AdstackOverflow in every build
    release: x=[...] -> y=[...]
        like run, in builds without checks alone
and above it
    types: f32 f64      the kernel is a template over `T`
    ulps: 4             permitted error of the results
    invalid: "part of the message"      parser or verifier must refuse it; invalid[adjoint]: at this stage;
                        invalid[grad]: legal, but the reverse transform must refuse it

Reals of a run agree within the ulps of the kernel: those of the row of OPS that the file is named after, else 0
(equal), unless an `ulps` directive says otherwise. Adjoints agree within (2*ulps + 4) units in the last place of
the expected value, zeros of either sign being equal. An array that is not given before starts with a content unlike
the one expected.

Each directive makes one test per type and executor: `sin.kir::run3[cpu-f32]`; see running.py for the builds in which
it must hold. Those on other backends than the strict ones, and under policies that are no lowering, rotate
(rotation.py). Each kernel is also verified and must survive printing and parsing: `sin.kir::text1[f32]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from kir_test_support import numbers, running
from kir_test_support.directives import Case, Check, Directive, KirFileError, quoted, read_cases, read_check
from kir_test_support.running import Build
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.policies import LOWERINGS, POLICIES
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable, ParseError, StackgradError, Unsupported, VerifyError
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel

STRICT = ("reference", "cpu")
"""Backends that must take every kernel; others may declare one Unsupported."""


class KirFailure(Exception):
    """Signal that a check does not hold; the message is the report."""


class KirFile(pytest.File):
    """Represent one .kir file, which is parsed once."""

    def collect(self) -> Iterator[KirItem]:
        try:
            cases = read_cases(self.path.read_text())
        except KirFileError as error:
            raise self.CollectError(f"{self.path}: {error}") from None
        row = OPS.get(self.path.stem) if self.path.parent.name == "ops" else None
        counts: dict[str, int] = {}
        for number, case in enumerate(cases, 1):
            if case.ulps is None:
                case.ulps = row.ulps if row else 0.0
            for directive in case.invalid:
                yield self._item(InvalidItem, f"invalid{number}", case, directive)
            if not case.invalid:
                yield from self._kernel(case, number, counts)

    def _kernel(self, case: Case, number: int, counts: dict[str, int]) -> Iterator[KirItem]:
        for dtype in case.types:
            yield self._item(TextItem, f"text{number}" + (f"[{dtype}]" if dtype else ""), case, None, dtype)
        for directive in case.checks:
            counts[directive.kind] = counts.get(directive.kind, 0) + 1
            name = f"{directive.kind}{counts[directive.kind]}"
            check = read_check(directive)
            for backend in chosen_backends(self.config):
                yield from self._checks(case, name, directive, check, backend)

    def _checks(self, case: Case, name: str, directive: Directive, check: Check, backend: str) -> Iterator[KirItem]:
        every = backend == "reference" and self.path.parent.name == "ad"
        policies = POLICIES if every else LOWERINGS
        lowerings = tuple(policies) if directive.kind == "grad" else ("",)
        if not running.builds(backend, directive.kind, check.error):
            return
        for dtype in case.types:
            for lowering in lowerings:
                if directive.applies(dtype or "any", backend, lowering or "any"):
                    label = "-".join(part for part in (backend, dtype, lowering) if part)
                    kind = GradItem if lowering else CheckItem
                    made = self._item(kind, f"{name}[{label}]", case, directive, dtype)
                    made.check, made.backend, made.lowering = check, backend, lowering
                    if backend not in STRICT or lowering not in ("", *LOWERINGS):
                        made.add_marker("rotating")
                    yield made

    def _item(
        self, kind: type[KirItem], name: str, case: Case, directive: Directive | None = None, dtype: str = ""
    ) -> KirItem:
        made: KirItem = kind.from_parent(self, name=name)
        made.case, made.directive, made.dtype = case, directive, dtype
        return made


class KirItem(pytest.Item):
    """Represent one check of one kernel."""

    case: Case
    directive: Directive | None = None
    check: Check
    dtype = ""
    backend = ""
    lowering = ""

    @property
    def line(self) -> int:
        return self.directive.line if self.directive else self.case.line

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, f"{self.path.name}::{self.name}"

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        if isinstance(excinfo.value, (KirFailure, KirFileError)):
            return self.report(str(excinfo.value))
        frames = [str(entry) for entry in excinfo.traceback.cut(path=__file__)]
        return self.report("\n".join([*frames, f"{excinfo.typename}: {excinfo.value}"]))

    def report(self, message: str) -> str:
        """Return the report of a failed check: place, kernel, executor and differences."""
        lines = [f"{self.path}:{self.line}: {self.name}", ""]
        lines += ["  " + line for line in self.case.source(self.dtype).splitlines()]
        if self.directive:
            lines += ["", f"  {self.directive.kind}: {self.directive.text}"]
        return "\n".join([*lines, "", message])

    def kernel(self) -> Kernel:
        return running.parsed(self.case.source(self.dtype))

    def differences(self, arrays: dict[str, np.ndarray], ulps: float, signed_zero: bool = True) -> list[str]:
        """Return lines about every array that is not as the check expects."""
        found: list[str] = []
        for name, content in self.check.expected.items():
            if name in arrays:
                dtype, ndim = running.dtype_of(self.kernel(), name)
                expected = numbers.read_array(content, dtype, ndim, exact=False)
                found += numbers.compare(name, arrays[name], expected, dtype, ulps, signed_zero)
        return found

    def expect_none(self, differences: list[str], head: str) -> None:
        if differences:
            raise KirFailure("\n".join([head, *differences]))

    def unsupported(self, error: Unsupported) -> NoReturn:
        """Skip or fail a check at a declared limit of the backend; strict backends may have none."""
        if self.backend in STRICT:
            raise error
        pytest.skip(str(error))


class TextItem(KirItem):
    """Check that a kernel parses, is legal, and is the same after printing and parsing."""

    def runtest(self) -> None:
        kernel = parse_kernel(self.case.source(self.dtype))
        verify(kernel, stage_of(kernel))
        text = print_kernel(kernel)
        if parse_kernel(text) != kernel:
            raise KirFailure(f"printing and parsing changed the kernel to\n{text}")


def stage_of(kernel: Kernel) -> str:
    """Return the stage of a kernel of a .kir file: adjoint if it has adstacks."""
    stacks = [cls for name, cls in STATEMENTS.items() if name.startswith("Stack")]
    return "adjoint" if any(isinstance(stmt, tuple(stacks)) for stmt in walk_kernel(kernel)) else "tasks"


class InvalidItem(KirItem):
    """Check that parser, verifier or reverse mode refuses the kernel with the message."""

    def runtest(self) -> None:
        assert self.directive
        stage = self.directive.only[0] if self.directive.only else "tasks"
        fragment = quoted(self.directive)
        try:
            refuse(self.case.text, stage)
        except (ParseError, VerifyError, NotDifferentiable, Unsupported) as error:
            if fragment not in str(error):
                raise KirFailure(f"refused, but {fragment!r} is not in the message:\n{error}") from None
        else:
            raise KirFailure(f"accepted at stage {stage}; expected an error with {fragment!r}")


def refuse(text: str, stage: str) -> None:
    """Run the step that must fail: the verifier of a stage or, for `grad`, reverse mode on a legal kernel."""
    kernel = parse_kernel(text)
    verify(kernel, "tasks" if stage == "grad" else stage)
    if stage == "grad":
        prepare_reverse(kernel)


class CheckItem(KirItem):
    """Run the checks of a run, release or trap line on one executor, for all builds of the line."""

    def runtest(self) -> None:
        assert self.directive
        for build in self._builds():
            arrays, scalars = running.memory(self.kernel(), self.check)
            with running.captured() as lines:
                error = self._launch(build, arrays, scalars)
            if self.directive.kind == "trap":
                self._expect_trap(error, build)
            else:
                self._expect_memory(error, build, arrays, lines)

    def _builds(self) -> list[Build]:
        assert self.directive
        found = list(running.builds(self.backend, self.directive.kind, self.check.error))
        if running.DEFAULT in found and running.is_covered_by_default(self.case.source(self.dtype)):
            found.remove(running.PLAIN)
        return found

    def _launch(self, build: Build, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> StackgradError | None:
        try:
            ready = running.launcher(self.case.source(self.dtype), self.backend, build)
            ready.run(arrays, scalars, Draws(*self.check.draws))
        except Unsupported as error:
            self.unsupported(error)
        except StackgradError as error:
            return error
        return None

    def _expect_trap(self, error: StackgradError | None, build: Build) -> None:
        if error is None:
            raise KirFailure(f"{self.backend}, {build.name} build: nothing was raised; expected {self.check.error}")
        if type(error).__name__ != self.check.error or self.check.fragment not in str(error):
            raise KirFailure(
                f"{self.backend}, {build.name} build: got {type(error).__name__}: {error}\n"
                f"expected {self.check.error} with {self.check.fragment!r}"
            )

    def _expect_memory(
        self, error: StackgradError | None, build: Build, arrays: dict[str, np.ndarray], lines: list[str]
    ) -> None:
        if error is not None:
            raise KirFailure(f"{self.backend}, {build.name} build: raised {type(error).__name__}: {error}")
        found = self.differences(arrays, self.case.ulps or 0.0)
        if self.check.prints is not None and sorted(lines) != sorted(self.check.prints):
            found.append(f"printed {lines}, expected {self.check.prints}")
        self.expect_none(found, f"{self.backend}, {build.name} build:")


class GradItem(KirItem):
    """Check a grad line: kernel and grad kernel on one executor and lowering, and the JAX oracle once."""

    def runtest(self) -> None:
        ulps = 2 * (self.case.ulps or 0.0) + 4
        for build in running.builds(self.backend, "grad", lowering=self.lowering):
            try:
                arrays = running.run_gradient(
                    self.case.source(self.dtype), self.check, self.backend, build, self.lowering
                )
            except Unsupported as error:
                self.unsupported(error)
            found = self.differences(arrays, ulps, signed_zero=False)
            self.expect_none(found, f"{self.backend}, {build.name} build:")
        if self.backend == "reference" and self.lowering == "lean" and not self.check.no_jax:
            adjoints = running.ask_jax(self.kernel(), self.check)
            found = self.differences(adjoints, ulps, signed_zero=False)
            self.expect_none(found, "the JAX oracle disagrees with the file:")


def chosen_backends(config: pytest.Config) -> list[str]:
    """Return the backends that can run here, restricted by --backend."""
    only = config.getoption("--backend")
    return [name for name, probe in running.probes().items() if probe.available and (not only or name in only)]
