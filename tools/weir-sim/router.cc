// SPDX-License-Identifier: BSD-3-Clause
#include "router.h"

namespace weir::sim {

Router::Router(const Spread& spread, std::uint32_t nodes, std::size_t keys, Random random)
    : spread_(spread),
      random_(random),
      zipf_(Chooser::zipf(nodes, spread.kind == Spread::Kind::zipf ? spread.zipf : 0)),
      states_(nodes, State::open),
      turns_(keys) {
  for (std::uint32_t node = 0; node < nodes; ++node) taking_.push_back(node);
  // Keys begin at different nodes, or the first node would get every key's first request.
  for (std::size_t key = 0; key < keys; ++key) turns_[key] = static_cast<std::uint32_t>(key % nodes);
}

void Router::set(std::uint32_t node, State state) {
  states_[node] = state;
  taking_.clear();
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    if (states_[i] != State::closed) taking_.push_back(i);
}

std::uint32_t Router::next_open(std::uint32_t node) const noexcept {
  const auto nodes = static_cast<std::uint32_t>(states_.size());
  for (std::uint32_t i = 0; i < nodes; ++i)
    if (states_[(node + i) % nodes] != State::closed) return (node + i) % nodes;
  return nowhere;
}

std::uint32_t Router::route(std::size_t key, Duration now, bool regular) {
  if (taking_.empty()) return nowhere;
  const auto nodes = static_cast<std::uint32_t>(states_.size());
  std::uint32_t node = nowhere;
  switch (spread_.kind) {
    case Spread::Kind::even:
      node = taking_[regular ? turns_[key]++ % taking_.size() : random_.below(taking_.size())];
      break;
    case Spread::Kind::zipf:
      node = static_cast<std::uint32_t>(zipf_.draw(random_));
      if (states_[node] == State::closed) node = taking_[random_.below(taking_.size())];
      break;
    case Spread::Kind::one:
      node = next_open(static_cast<std::uint32_t>(key % nodes));
      break;
    case Spread::Kind::moving:
      node = next_open(
          static_cast<std::uint32_t>((key + static_cast<std::uint64_t>(now / spread_.period)) % nodes));
      break;
  }
  return states_[node] == State::losing ? nowhere : node;
}

}  // namespace weir::sim
