// Vectors with the width of one instruction set, written with the compilers' vector extensions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace ASSAY_ISA {

#if defined(__AVX512BW__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

// Always at least four lanes, because the shuffles below work on four.
template <class T> constexpr int kWidth = kBytes < 4 * int(sizeof(T)) ? 4 * int(sizeof(T)) : kBytes;
template <class T> struct VecOf { typedef T type __attribute__((vector_size(kWidth<T>))); };
template <class T> using Vec = typename VecOf<T>::type;
template <class T> constexpr int kLanes = kWidth<T> / int(sizeof(T));

template <class T> static inline Vec<T> load(const void* from) {
  Vec<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V> static inline void store(void* to, V v) { std::memcpy(to, &v, sizeof v); }
template <class T> static inline Vec<T> splat(T value) { return Vec<T>{} + value; }
template <class V> static inline V larger(V a, V b) { return a > b ? a : b; }
template <class V> static inline V smaller(V a, V b) { return a < b ? a : b; }

// Shuffles two vectors: Rule maps each lane of the result to a lane of their concatenation.
template <class Rule, class V, int... I>
static inline V pick(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, Rule::at(I, int(sizeof...(I)))...);
}
template <class Rule, class T> static inline Vec<T> pick(Vec<T> a, Vec<T> b) {
  return pick<Rule>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}
// Even (odd) lanes of both, four lanes at a time: a single shuffle instruction on every target.
template <int kOdd> struct Alternate {
  static constexpr int at(int i, int n) { return (i % 4 < 2 ? 0 : n) + i / 4 * 4 + i % 2 * 2 + kOdd; }
};
// Even (odd) quadruples of the concatenation.
template <int kOdd> struct Quadruples {
  static constexpr int at(int i, int) { return i / 4 * 8 + kOdd * 4 + i % 4; }
};
template <int kStep> struct Fold {
  static constexpr int at(int i, int n) { return (i + kStep) % n; }
};

template <int kStep> static inline double folded_sum(Vec<double> v) {
  if constexpr (kStep == 0) return v[0];
  else return folded_sum<kStep / 2>(v + pick<Fold<kStep>, double>(v, v));
}
// The sum of all lanes, in double precision.
template <class T> static inline double sum_of(Vec<T> v) {
  typedef T Part __attribute__((vector_size(kLanes<double> * sizeof(T))));
  Part parts[kLanes<T> / kLanes<double>];
  std::memcpy(parts, &v, sizeof v);
  Vec<double> total{};
  for (const Part& part : parts) total += __builtin_convertvector(part, Vec<double>);
  return folded_sum<kLanes<double> / 2>(total);
}

// Afterwards v[k] has element k of every quadruple, one quadruple per lane.
template <class T> static inline void transpose4(Vec<T>* v) {
  const Vec<T> e01 = pick<Alternate<0>, T>(v[0], v[1]), o01 = pick<Alternate<1>, T>(v[0], v[1]);
  const Vec<T> e23 = pick<Alternate<0>, T>(v[2], v[3]), o23 = pick<Alternate<1>, T>(v[2], v[3]);
  v[0] = pick<Alternate<0>, T>(e01, e23);
  v[2] = pick<Alternate<1>, T>(e01, e23);
  v[1] = pick<Alternate<0>, T>(o01, o23);
  v[3] = pick<Alternate<1>, T>(o01, o23);
}

// Afterwards v[k] has element k of every group of eight, one group per lane.
template <class T> static inline void transpose8(Vec<T>* v) {
  Vec<T> even[4], odd[4];
  for (int i = 0; i < 4; ++i) {
    even[i] = pick<Quadruples<0>, T>(v[2 * i], v[2 * i + 1]);
    odd[i] = pick<Quadruples<1>, T>(v[2 * i], v[2 * i + 1]);
  }
  transpose4<T>(even);
  transpose4<T>(odd);
  for (int i = 0; i < 4; ++i) v[i] = even[i], v[4 + i] = odd[i];
}

template <class T, int kStep> struct Largest {
  static inline T of(Vec<T> v) { return Largest<T, kStep / 2>::of(larger(v, pick<Fold<kStep>, T>(v, v))); }
};
template <class T> struct Largest<T, 0> {
  static inline T of(Vec<T> v) { return v[0]; }
};
template <class T> static inline T largest_of(Vec<T> v) { return Largest<T, kLanes<T> / 2>::of(v); }
// Of bytes that are not negative: few processors can shuffle single bytes.
template <> inline int8_t largest_of<int8_t>(Vec<int8_t> v) {
  const auto pairs = (Vec<int16_t>)v;
  return int8_t(largest_of<int16_t>(larger(pairs & int16_t(255), pairs >> 8)));
}

// Whether any lane is not zero.
template <class T> static inline bool any_of(Vec<T> v) {
#if defined(__AVX512BW__)
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#else
  T all = 0;
  for (int i = 0; i < kLanes<T>; ++i) all |= v[i];
  return all != 0;
#endif
}

}  // namespace ASSAY_ISA
