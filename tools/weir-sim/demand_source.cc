// SPDX-License-Identifier: BSD-3-Clause
#include "demand_source.h"

#include <algorithm>
#include <numeric>

#include "streams.h"

namespace weir::sim {
namespace {

/// No run asks more often: products of numbers of keys need not go further.
constexpr std::uint64_t most_turns = std::uint64_t{1} << 36;

/// Whose turn it is, in one [[keys]] after the other. All of them step with every request, so that the values
/// of each come at equal distances; and one steps once more whenever it has come round together with those
/// before it, until every combination has had its turn.
class Turn {
 public:
  explicit Turn(std::uint64_t number) : number_(number) {}

  std::uint32_t among(std::uint64_t size) noexcept {
    const std::uint64_t rounds = std::gcd(before_, size);
    const std::uint64_t round = before_ / rounds * size;
    before_ = std::min(before_ * size, most_turns);
    return static_cast<std::uint32_t>((number_ + number_ / round % rounds) % size);
  }

 private:
  std::uint64_t number_;
  std::uint64_t before_ = 1;  // combinations
};

}  // namespace

DemandSource::DemandSource(const Scenario& scenario)
    : duration_(scenario.duration), values_(scenario.keys.size()) {
  for (const KeySpace& space : scenario.keys) {
    popularity_.push_back(Chooser::zipf(space.values.size(), space.zipf));
    uniform_.push_back(space.zipf == 0);
  }
  for (std::size_t i = 0; i < scenario.demands.size(); ++i) {
    const Demand& demand = scenario.demands[i];
    const std::uint64_t first = stream_of(RandomStream::demand, 2 * i);
    streams_.push_back(
        {.demand = &demand,
         .arrivals = Arrivals(rate_curve(demand, scenario.duration),
                              demand.arrivals == Demand::Arrivals::poisson, Random(scenario.seed, first)),
         .random = Random(scenario.seed, first + 1),
         .next = {}});
    advance(streams_.back());
  }
  find_next();
}

void DemandSource::advance(Stream& stream) {
  if (stream.demand->shape != Demand::Shape::recorded) {
    stream.next = stream.arrivals.next();
    return;
  }
  const auto& recording = stream.demand->recording;
  const bool more = stream.recorded < recording.size() && recording[stream.recorded].at < duration_;
  stream.next = more ? recording[stream.recorded].at : Duration::max();
}

void DemandSource::find_next() noexcept {
  next_at_ = Duration::max();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].next >= next_at_) continue;
    next_at_ = streams_[i].next;
    next_stream_ = i;
  }
}

DemandSource::Offer DemandSource::take() {
  Stream& stream = streams_[next_stream_];
  const Demand& demand = *stream.demand;
  Offer offer;
  offer.values = &values_;
  offer.regular = demand.arrivals == Demand::Arrivals::regular;
  const bool first_is_given = demand.shape == Demand::Shape::recorded || demand.key >= 0;
  Turn turn(stream.taken++);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    // Regular streams over keys that are all alike take turns; else chance decides.
    if (!offer.regular || !uniform_[i])
      values_[i] = static_cast<std::uint32_t>(popularity_[i].draw(stream.random));
    else if (i > 0 || !first_is_given)
      values_[i] = turn.among(popularity_[i].size());
  }
  if (demand.shape == Demand::Shape::recorded) {
    const RecordedRequest& recorded = demand.recording[stream.recorded++];
    values_[0] = recorded.key;
    offer.weight = recorded.weight;
    offer.node = recorded.node;
  } else {
    if (demand.key >= 0) values_[0] = static_cast<std::uint32_t>(demand.key);
    offer.weight = demand.weight_least;
    if (demand.weight_most > demand.weight_least)
      offer.weight +=
          static_cast<std::uint32_t>(stream.random.below(demand.weight_most - demand.weight_least + 1ULL));
  }
  advance(stream);
  find_next();
  return offer;
}

}  // namespace weir::sim
