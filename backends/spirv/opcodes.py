"""This module lists the SPIR-V opcodes and enumerants that the generator uses, by their names in the specification."""

from __future__ import annotations

MAGIC = 0x07230203
VERSION = 0x00010500
"""SPIR-V 1.5, the version of Vulkan 1.2."""


def _numbered(text: str) -> dict[str, int]:
    """Return a mapping from name to number, parsed from text such as `name number, name number`."""
    return {name: int(number) for name, number in map(str.split, text.split(","))}


OPCODES = _numbered("""
    Name 5, Extension 10, ExtInstImport 11, ExtInst 12, MemoryModel 14, EntryPoint 15, ExecutionMode 16,
    Capability 17, TypeVoid 19, TypeBool 20, TypeInt 21, TypeFloat 22, TypeVector 23, TypeArray 28,
    TypeRuntimeArray 29, TypeStruct 30, TypePointer 32, TypeFunction 33, ConstantTrue 41, ConstantFalse 42,
    Constant 43, ConstantComposite 44, ConstantNull 46, Function 54, FunctionParameter 55, FunctionEnd 56,
    FunctionCall 57, Variable 59, Load 61, Store 62, AccessChain 65, Decorate 71, MemberDecorate 72,
    CompositeConstruct 80, CompositeExtract 81, ConvertFToU 109, ConvertFToS 110, ConvertSToF 111,
    ConvertUToF 112, UConvert 113, SConvert 114, FConvert 115, ConvertUToPtr 120, Bitcast 124, FNegate 127,
    IAdd 128, FAdd 129, ISub 130, FSub 131, IMul 132, FMul 133, UDiv 134, SDiv 135, FDiv 136, UMod 137,
    UMulExtended 151, IsNan 156, LogicalEqual 164, LogicalNotEqual 165, LogicalOr 166, LogicalAnd 167,
    LogicalNot 168, Select 169, IEqual 170, INotEqual 171, UGreaterThan 172, SGreaterThan 173,
    UGreaterThanEqual 174, SGreaterThanEqual 175, ULessThan 176, SLessThan 177, ULessThanEqual 178,
    SLessThanEqual 179, FOrdEqual 180, FUnordEqual 181, FOrdNotEqual 182, FUnordNotEqual 183, FOrdLessThan 184,
    FUnordLessThan 185, FOrdGreaterThan 186, FUnordGreaterThan 187, FOrdLessThanEqual 188,
    FUnordLessThanEqual 189, FOrdGreaterThanEqual 190, FUnordGreaterThanEqual 191, ShiftRightLogical 194,
    ShiftRightArithmetic 195, ShiftLeftLogical 196, BitwiseOr 197, BitwiseXor 198, BitwiseAnd 199, BitCount 205,
    AtomicExchange 229, AtomicCompareExchange 230, AtomicIAdd 234, AtomicSMin 236, AtomicUMin 237,
    AtomicSMax 238, AtomicUMax 239, AtomicAnd 240, AtomicOr 241, AtomicXor 242, LoopMerge 246,
    SelectionMerge 247, Label 248, Branch 249, BranchConditional 250, Return 253, ReturnValue 254,
    GroupNonUniformElect 333, GroupNonUniformBroadcastFirst 338, GroupNonUniformIAdd 349,
    GroupNonUniformFAdd 350, GroupNonUniformSMin 353, GroupNonUniformUMin 354, GroupNonUniformSMax 356,
    GroupNonUniformUMax 357, AtomicFAddEXT 6035, ControlBarrier 224, MemoryBarrier 225
""")

CAPABILITIES = _numbered("""
    Shader 1, Float64 10, Int64 11, Int64Atomics 12, Int16 22, Int8 39, GroupNonUniform 61,
    GroupNonUniformArithmetic 63, GroupNonUniformBallot 64, StorageBuffer16BitAccess 4433,
    StorageBuffer8BitAccess 4448, DenormPreserve 4464, SignedZeroInfNanPreserve 4466, RoundingModeRTE 4467,
    PhysicalStorageBufferAddresses 5347, AtomicFloat32AddEXT 6033, AtomicFloat64AddEXT 6034
""")

EXTENSIONS = {
    "AtomicFloat32AddEXT": "SPV_EXT_shader_atomic_float_add",
    "AtomicFloat64AddEXT": "SPV_EXT_shader_atomic_float_add",
}
"""Extensions by the capability that needs them; all other capabilities are part of version 1.5."""

EXECUTION_MODES = {"LocalSize": 17, "DenormPreserve": 4459, "SignedZeroInfNanPreserve": 4461, "RoundingModeRTE": 4462}

INPUT, WORKGROUP, FUNCTION, PUSH_CONSTANT, STORAGE_BUFFER, PHYSICAL = 1, 4, 7, 9, 12, 5349
"""Numbers of storage classes."""

BLOCK, ARRAY_STRIDE, BUILT_IN, ALIASED, BINDING, DESCRIPTOR_SET, OFFSET, NO_CONTRACTION = 2, 6, 11, 20, 33, 34, 35, 42
"""Numbers of decorations."""

NUM_WORKGROUPS, GLOBAL_INVOCATION_ID = 24, 28
"""Numbers of built-in variables."""

LOGICAL, PHYSICAL_64, GLSL_450, GL_COMPUTE = 0, 5348, 1, 5
"""Numbers of addressing models (LOGICAL, PHYSICAL_64), of the memory model and of the execution model."""

ALIGNED = 2
"""The memory operand that an alignment follows."""

DEVICE_SCOPE, WORKGROUP_SCOPE, SUBGROUP_SCOPE, RELAXED = 1, 2, 3, 0
"""Numbers of scopes, and of the memory semantics of atomics (RELAXED)."""

ORDERED_MEMORY = 0x8 | 0x40 | 0x100
"""Memory semantics of barriers: acquire and release, for buffers and for memory of the workgroup."""

GLSL = {
    "roundeven": 2,
    "trunc": 3,
    "fabs": 4,
    "floor": 8,
    "ceil": 9,
    "sqrt": 31,
    "fma": 50,
    "FindILsb": 73,
    "FindUMsb": 75,
}
"""Instructions of GLSL.std.450; those on reals have the names of LLVM's intrinsics."""
