// The entropy of counts. In scalar arithmetic and a fixed order, so that all builds agree to the last bit.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace assay {

class Entropy {
 public:
  Entropy() : small_(small_terms()) {}
  template <class Count> Entropy(const Count* counts, size_t size) : Entropy() {
    for (size_t i = 0; i < size; ++i) add(counts[i]);
  }
  void add(uint64_t count) { total_ += count, sums_[next_++ % kSums] += term(count); }
  // Of all counts together: what an order-0 code takes.
  double total_bits() const {
    const double bits = term(total_) - ((sums_[0] + sums_[1]) + (sums_[2] + sums_[3]));
    return bits > 0 ? bits : 0;
  }
  // Per counted item.
  double bits() const { return total_ ? total_bits() / double(total_) : 0; }

 private:
  static constexpr uint64_t kSmall = 4096;
  static constexpr size_t kSums = 4;  // independent, so that they need not wait for each other
  struct Terms {
    double of[kSmall];
    Terms() {
      for (uint64_t count = 0; count < kSmall; ++count) of[count] = large_term(count);
    }
  };
  static double large_term(uint64_t count) { return count ? double(count) * std::log2(double(count)) : 0; }
  static const double* small_terms() {
    static const Terms terms;
    return terms.of;
  }
  double term(uint64_t count) const { return count < kSmall ? small_[count] : large_term(count); }

  const double* small_;
  uint64_t total_ = 0;
  size_t next_ = 0;
  double sums_[kSums] = {};
};

}  // namespace assay
