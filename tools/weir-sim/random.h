// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Random numbers that are the same everywhere: the standard's distributions differ from library to library,
/// and a scenario with a seed must give the same bytes on every machine's compiler.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace weir::sim {

/// xoshiro256** (Blackman and Vigna), seeded by splitmix64.
class Random {
 public:
  /// @param stream  tells the sources of one run apart (demand, links, clocks): drawing more from one does
  /// not
  ///                shift the others
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) noexcept;

  std::uint64_t next() noexcept;
  /// In [0, 1), in steps of 2^-53.
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, bound). @pre bound > 0
  std::uint64_t below(std::uint64_t bound) noexcept;
  bool chance(double probability) noexcept { return probability > 0 && unit() < probability; }
  /// Exponential, of mean 1.
  double exponential() noexcept;
  /// Of mean 0 and standard deviation 1.
  double normal() noexcept;

 private:
  std::array<std::uint64_t, 4> state_;
};

/// Draws an index with given probabilities, in constant time (the alias method).
class Chooser {
 public:
  /// @param weights  at least one, none negative, not all 0
  explicit Chooser(const std::vector<double>& weights);
  /// All of `count` alike.
  static Chooser uniform(std::size_t count);
  /// The i-th of `count` with weight (i + 1)^-exponent.
  static Chooser zipf(std::size_t count, double exponent);

  std::size_t draw(Random& random) const noexcept;
  std::size_t size() const noexcept { return places_.size(); }

 private:
  struct Place {
    double keep;          ///< the part of this place's draws that stay
    std::uint32_t alias;  ///< where the others go
  };
  std::vector<Place> places_;
};

}  // namespace weir::sim
