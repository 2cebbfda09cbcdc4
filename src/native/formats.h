// The stored formats: their bits, how a block is converted to numbers, and which halfword is counted.
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
  static constexpr int kCountStride = 1, kCountOffset = 0;
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
  static constexpr int kCountStride = 1, kCountOffset = 0;
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
  static constexpr int kCountStride = sizeof(T) / 2, kCountOffset = sizeof(T) / 2 - 1;
  static inline T value(Raw raw) { return bit_cast<T>(raw); }
  static inline void load8(const Raw* from, Vec<T>* x) {
    for (int i = 0; i < 8; ++i) x[i] = load<T>(from + i * kLanes<T>);
    transpose8<T>(x);
  }
};

template <class S> constexpr typename S::Raw kMagnitude = typename S::Raw(~typename S::Raw(0)) >> 1;

}  // namespace ASSAY_ISA
