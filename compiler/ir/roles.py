"""This module groups statement classes into tuples for `isinstance`, such as loops or statements that write arrays.

A role is such a tuple. A test compares the roles of memory and locals with the table of effects, and names each new
class of statements that is missing from a role.
"""

from __future__ import annotations

from . import nodes as n

ACCESSES = (n.Load, n.Store, n.Atomic)
"""Statements that access an element of an array."""

ARRAY_READS = (n.Load, n.Atomic)
"""Statements that read an element of an array."""

ARRAY_WRITES = (n.Store, n.Atomic)
"""Statements that write an element of an array."""

ARRAY_USES = (*ACCESSES, n.Shape)
"""Statements that name an array."""

LOCAL_READS = (n.Get, n.GetElement, n.UpdateElement)
"""Statements that read a local or an element of a local array."""

LOCAL_WRITES = (n.Set, n.SetElement, n.UpdateElement)
"""Statements that write a local, or an element of a local array, which is declared already."""

LOCAL_DECLARATIONS = (n.Local, n.LocalArray, n.SharedArray)
"""Statements that declare a local, a local array or a shared array."""

SCALAR_USES = (n.Get, n.Set)
"""Statements that read or write a local as a whole."""

SCALAR_ASSIGNMENTS = (n.Local, n.Set)
"""Statements that give a local a value as a whole."""

STACK_READS = (n.StackTop, n.StackTopAdjoint)
"""Statements that give a value of the top slot of an adstack."""

LOOPS = (n.For, n.While)
"""Statements that repeat a block."""

LOOP_JUMPS = (n.Break, n.Continue)
"""Statements that leave an iteration of a loop, or the loop."""

JUMPS = (*LOOP_JUMPS, n.Return)
"""Statements that leave the block around them."""

EXITS = (n.Scope, *JUMPS)
"""Statements that the pass `lower_exits` removes."""

CONSTANTS = (n.Const, n.Arg, n.Shape)
"""Statements whose result is the same in a whole launch."""

VALUES = (*CONSTANTS, n.Op, n.Cast, n.BitCast)
"""Statements whose result follows from operands and from the launch alone, however often and wherever they execute."""

STRAIGHT = (*VALUES, n.Within, *ACCESSES)
"""Statements that are values, checks of indices and accesses of arrays: no locals, blocks or adstacks."""

STRUCTURED = (n.If, *LOOPS)
"""Statements of structured control flow."""

CONTROL = (*STRUCTURED, *EXITS)
"""Statements whose meaning is control flow."""

BLOCKS = (n.SharedArray, n.UpdateElement, n.Sync, n.Collective)
"""Statements that concern a block; the pass `lower_blocks` removes them."""

STACKS = (n.StackAlloca, n.StackPush, n.StackPop, n.StackTop, n.StackTopAdjoint, n.StackAccumulate)
"""Statements that touch an adstack."""
