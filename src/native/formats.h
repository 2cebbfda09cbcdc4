// The stored formats: their bits, how a block is converted to numbers, and which halfword is counted.
// kRounded: whether rounding errors are reported. kUnderflows: whether squares can underflow. Where kInfinity is larger than
// any magnitude, all values are finite.
#pragma once
#include "vectors.h"

namespace ASSAY_ISA {

template <class T> struct Bits;
template <> struct Bits<float> {
  using Unsigned = uint32_t;
  using Signed = int32_t;
  static constexpr int kMantissa = 23, kBias = 127;
};
template <> struct Bits<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
};

template <class To, class From> static inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

struct BFloat16 {
  using Raw = uint16_t;
  using Order = int16_t;  // signed, of the same width: patterns without sign order like magnitudes
  using Real = float;
  static constexpr Raw kInfinity = 0x7f80;
  static constexpr bool kRounded = true, kUnderflows = true;
  static inline float value(Raw raw) { return bit_cast<float>(uint32_t(raw) << 16); }
  static inline void load8(const Raw* from, Vec<float>* x) {
    Vec<uint32_t> p[4];
    for (int i = 0; i < 4; ++i) p[i] = load<uint32_t>(from + i * 2 * kLanes<float>);
    transpose4<uint32_t>(p);
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = (Vec<float>)(p[i] << 16);
      x[2 * i + 1] = (Vec<float>)(p[i] & 0xffff0000u);
    }
  }
};

struct Float16 {
  using Raw = uint16_t;
  using Order = int16_t;
  using Real = float;
  static constexpr Raw kInfinity = 0x7c00;
  static constexpr bool kRounded = true, kUnderflows = false;
  static constexpr float kRebias = 0x1p112f;
  static inline float value(Raw raw) {
    return bit_cast<float>(uint32_t(int32_t(uint32_t(raw) << 16) >> 3) & 0x8fffe000u) * kRebias;
  }
  static inline void load8(const Raw* from, Vec<float>* x) {
    Vec<uint32_t> p[4];
    for (int i = 0; i < 4; ++i) p[i] = load<uint32_t>(from + i * 2 * kLanes<float>);
    transpose4<uint32_t>(p);
    const Vec<int32_t> mask = splat<int32_t>(int32_t(0x8fffe000u));
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = (Vec<float>)(((Vec<int32_t>)(p[i] << 16) >> 3) & mask) * kRebias;
      x[2 * i + 1] = (Vec<float>)(((Vec<int32_t>)p[i] >> 3) & mask) * kRebias;
    }
  }
};

template <class T> struct Wide {
  using Raw = typename Bits<T>::Unsigned;
  using Order = typename Bits<T>::Signed;
  using Real = T;
  static constexpr Raw kInfinity = Raw(2 * Bits<T>::kBias + 1) << Bits<T>::kMantissa;
  static constexpr bool kRounded = true, kUnderflows = true;
  static inline T value(Raw raw) { return bit_cast<T>(raw); }
  static inline void load8(const Raw* from, Vec<T>* x) {
    for (int i = 0; i < 8; ++i) x[i] = load<T>(from + i * kLanes<T>);
    transpose8<T>(x);
  }
};

// Every second word of 32 bits, beginning with the first and with the second.
struct AlternateWords {
  Vec<uint32_t> words[2];
  explicit AlternateWords(const uint8_t* from) {
    const Vec<uint32_t> a = load<uint32_t>(from), b = load<uint32_t>(from + sizeof a);
    words[0] = pick<Alternate<0>, uint32_t>(a, b), words[1] = pick<Alternate<1>, uint32_t>(a, b);
  }
};

// Formats whose pattern of minus zero is NaN read it as zero, like all that is not finite. Blocks are loaded without signs,
// which no sum depends on.
template <int kMantissa, int kBias, int infinity> struct Float8 {
  using Raw = uint8_t;
  using Order = int8_t;
  using Real = float;
  static constexpr Raw kInfinity = infinity;
  static constexpr bool kRounded = true, kUnderflows = false;
  static constexpr int32_t kRebias = (127 - kBias) << 23;
  static inline float value(Raw raw) {
    const float least = bit_cast<float>(kRebias + (1 << 23));
    const float size = bit_cast<float>(((raw & 0x7f) << (23 - kMantissa)) + kRebias);
    return size < least ? 2 * size - least : size;
  }
  static inline void load8(const Raw* from, Vec<float>* x) {
    const AlternateWords both(from);
    const Vec<float> least = splat(bit_cast<float>(kRebias + (1 << 23)));
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      const int byte = k % 4 * 8, up = 23 - kMantissa - byte;
      const Vec<uint32_t> magnitude = both.words[k / 4] & 0x7fu << byte;
      // A zero exponent would make this a denormal number, which takes long to multiply.
      const auto size = (Vec<float>)((up < 0 ? magnitude >> -up : magnitude << up) + kRebias);
      x[k] = size < least ? size + size - least : size;
    }
  }
};
using E4M3FN = Float8<3, 7, 0x7f>;
using E5M2 = Float8<2, 15, 0x7c>;
using E4M3FNUZ = Float8<3, 8, 0x80>;
using E5M2FNUZ = Float8<2, 16, 0x80>;

template <class Integer> struct Integer8 {  // int32_t or uint32_t
  using Raw = uint8_t;
  using Order = int8_t;
  using Real = float;
  static constexpr Raw kInfinity = 0x80;  // above all magnitudes
  static constexpr bool kRounded = false, kUnderflows = false;
  static inline float value(Raw raw) { return float(Integer(uint32_t(raw) << 24) >> 24); }
  static inline void load8(const Raw* from, Vec<float>* x) {
    const AlternateWords both(from);
    for (int k = 0; k < 8; ++k) {
      const auto top = (Vec<Integer>)(both.words[k / 4] << (24 - k % 4 * 8));
      x[k] = __builtin_convertvector((Vec<int32_t>)(top >> 24), Vec<float>);
    }
  }
};
using Int8 = Integer8<int32_t>;
using UInt8 = Integer8<uint32_t>;

template <class S> constexpr typename S::Raw kMagnitude = typename S::Raw(~typename S::Raw(0)) >> 1;

// As many consecutive values as a vector has doubles.
template <class T> static inline Vec<double> doubles(const T* from) {
  typedef T Some __attribute__((vector_size(kLanes<double> * sizeof(T))));
  Some some;
  std::memcpy(&some, from, sizeof some);
  return __builtin_convertvector(some, Vec<double>);
}
#if defined(__AVX512DQ__)
// A single instruction; compilers split a generic conversion into three.
template <> inline Vec<double> doubles(const float* from) { return (Vec<double>)_mm512_cvtps_pd(_mm256_loadu_ps(from)); }
#endif

// All bits set in the lanes that are finite.
template <class T> static inline Vec<typename Bits<T>::Signed> finite_lanes(Vec<T> x) {
  using Int = typename Bits<T>::Signed;
  return (Vec<Int>)(((Vec<Int>)x & Int(kMagnitude<Wide<T>>)) < splat<Int>(Int(Wide<T>::kInfinity)));
}
template <class T> static inline Vec<T> where(Vec<typename Bits<T>::Signed> kept, Vec<T> x) {
  return (Vec<T>)((Vec<typename Bits<T>::Signed>)x & kept);
}
// x with zero in the lanes where `tested` is not finite; there are none if `kFinite`.
template <bool kFinite, class T> static inline Vec<T> only_finite(Vec<T> tested, Vec<T> x) {
  return kFinite ? x : where<T>(finite_lanes<T>(tested), x);
}
template <class T> static bool all_finite(const T* from, size_t count) {
  using Order = typename Bits<T>::Signed;
  Vec<Order> high{};
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) high = larger(high, load<Order>(from + i) & Order(kMagnitude<Wide<T>>));
  Order top = largest_of<Order>(high);
  for (; i < count; ++i) {
    const Order magnitude = Order(bit_cast<typename Bits<T>::Unsigned>(from[i]) & kMagnitude<Wide<T>>);
    top = magnitude > top ? magnitude : top;
  }
  return typename Bits<T>::Unsigned(top) < Wide<T>::kInfinity;
}

}  // namespace ASSAY_ISA
