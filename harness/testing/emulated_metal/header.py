"""This module contains HEADER, C++17 definitions of the types and functions of the Metal Shading Language.

All address spaces are the same, and threads run one after another, so atomics are plain operations. Literals without a
suffix are f32 by an option of the compiler (library.py).
"""

from __future__ import annotations

HEADER = """
#pragma once
typedef __SIZE_TYPE__ size_t;
typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
#define kernel static
#define device
#define constant
#define thread
#define threadgroup
struct uint3 { uint x, y, z; };
namespace metal {
template<typename T, typename U> inline T as_type(U x) {
  static_assert(sizeof(T) == sizeof(U));
  return __builtin_bit_cast(T, x);
}
template<typename T> inline T select(T x, T y, bool c) { return c ? y : x; }
inline float abs(float x) { return __builtin_fabsf(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline float rint(float x) { return __builtin_rintf(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline bool isunordered(float x, float y) { return __builtin_isunordered(x, y); }
inline uint clz(uint x) { return x ? __builtin_clz(x) : 32u; }
inline uint ctz(uint x) { return x ? __builtin_ctz(x) : 32u; }
inline uint popcount(uint x) { return __builtin_popcount(x); }

enum memory_order { memory_order_relaxed };
template<typename T> struct atomic { T held; };
typedef atomic<uint> atomic_uint; typedef atomic<int> atomic_int;
typedef atomic<float> atomic_float; typedef atomic<ulong> atomic_ulong;
#define FETCH(NAME, MADE) \\
  template<typename T> inline T NAME(atomic<T>* p, T value, memory_order) { \\
    T old = p->held; p->held = MADE; return old; }
FETCH(atomic_exchange_explicit, value)
FETCH(atomic_fetch_add_explicit, old + value)
FETCH(atomic_fetch_and_explicit, old & value)
FETCH(atomic_fetch_or_explicit, old | value)
FETCH(atomic_fetch_xor_explicit, old ^ value)
FETCH(atomic_fetch_min_explicit, value < old ? value : old)
FETCH(atomic_fetch_max_explicit, value > old ? value : old)
inline void atomic_max_explicit(atomic_ulong* p, ulong value, memory_order) { if (value > p->held) p->held = value; }
inline bool atomic_compare_exchange_weak_explicit(
    atomic_uint* p, uint* expected, uint value, memory_order, memory_order) {
  static uint calls = 0;
  if (p->held != *expected) { *expected = p->held; return false; }
  if (++calls % 3 == 0) return false;  // as the weak form may
  p->held = value;
  return true;
}
}

template<typename T, size_t Num> struct spvUnsafeArray {
  T elements[Num];
  T& operator[](size_t k) { return elements[k]; }
  const T& operator[](size_t k) const { return elements[k]; }
};
"""
