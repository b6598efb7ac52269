// SPDX-License-Identifier: BSD-3-Clause
#include "random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace weir::sim {
namespace {

std::uint64_t splitmix(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t stream) noexcept {
  std::uint64_t mixed = stream;
  std::uint64_t state = seed ^ splitmix(mixed);
  for (std::uint64_t& word : state_) word = splitmix(state);
}

std::uint64_t Random::next() noexcept {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) noexcept {
  // The bias of the plain product is at most bound / 2^64: nothing that a simulation could see.
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(next()) * bound >> 64);
}

double Random::exponential() noexcept { return -std::log1p(-unit()); }

double Random::normal() noexcept {
  // Box and Muller; 1 - unit() is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - unit()));
  return radius * std::cos(2 * std::numbers::pi * unit());
}

// Vose's way of filling the places: each takes what it lacks from one that has too much.
Chooser::Chooser(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<double> scaled;
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    scaled.push_back(weights[i] * static_cast<double>(weights.size()) / sum);
    (scaled.back() < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
    places_.push_back({1, static_cast<std::uint32_t>(i)});
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t lacking = small.back();
    const std::uint32_t giving = large.back();
    small.pop_back();
    places_[lacking] = {scaled[lacking], giving};
    scaled[giving] -= 1 - scaled[lacking];
    if (scaled[giving] < 1) {
      large.pop_back();
      small.push_back(giving);
    }
  }
}

Chooser Chooser::uniform(std::size_t count) { return Chooser(std::vector<double>(count, 1.0)); }

Chooser Chooser::zipf(std::size_t count, double exponent) {
  std::vector<double> weights;
  weights.reserve(count);
  for (std::size_t i = 0; i < count; ++i) weights.push_back(std::pow(static_cast<double>(i + 1), -exponent));
  return Chooser(weights);
}

std::size_t Chooser::draw(Random& random) const noexcept {
  if (places_.size() == 1) return 0;
  // One number for both: its whole part finds the place, what is left decides whether it stays.
  const double at = random.unit() * static_cast<double>(places_.size());
  const auto index = static_cast<std::size_t>(at);
  return at - static_cast<double>(index) < places_[index].keep ? index : places_[index].alias;
}

}  // namespace weir::sim
