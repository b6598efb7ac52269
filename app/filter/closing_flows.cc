// SPDX-License-Identifier: BSD-3-Clause
#include "filter/closing_flows.h"

#include <algorithm>
#include <bit>

#include "filter/flow_hash.h"
#include "filter/reply.h"

namespace weir::filter {
namespace {

/// Order of sequence numbers on their circle.
bool after(std::uint32_t a, std::uint32_t b) noexcept { return static_cast<std::int32_t>(a - b) > 0; }

bool belongs(const ClosingFlow& flow, const Frame& frame) noexcept {
  return flow.client_port == frame.source_port && flow.server_port == frame.destination_port &&
         flow.client == frame.source && flow.server == frame.destination;
}

}  // namespace

ClosingStep closing_step(ClosingFlow& flow, const Frame& frame) noexcept {
  if ((frame.tcp_flags & (tcp_syn | tcp_rst)) != 0) return ClosingStep::forget;
  const std::uint32_t end = sequence_end(frame);
  if (end == frame.sequence) return ClosingStep::absorb;
  if (!after(frame.sequence, flow.next_from_client) && after(end, flow.next_from_client))
    flow.next_from_client = end;
  const bool request_again =
      !after(frame.sequence, flow.request_sequence) && after(end, flow.request_sequence);
  if (request_again && frame.acknowledgment == flow.reply_sequence) return ClosingStep::repeat_reply;
  return ClosingStep::acknowledge;
}

ClosingFlow closing_flow(const Frame& frame, std::size_t reply_length) noexcept {
  ClosingFlow flow;
  flow.client = frame.source;
  flow.server = frame.destination;
  flow.client_port = frame.source_port;
  flow.server_port = frame.destination_port;
  flow.request_sequence = frame.sequence;
  flow.reply_sequence = frame.acknowledgment;
  flow.next_to_client = frame.acknowledgment + static_cast<std::uint32_t>(reply_length) + 1;
  flow.next_from_client = sequence_end(frame);
  return flow;
}

ClosingFlows::ClosingFlows(std::size_t capacity, std::uint64_t seed)
    : slots_(std::bit_ceil(std::max(capacity, ways))), seed_(seed) {}

std::size_t ClosingFlows::set_of(const Frame& frame) const noexcept {
  return flow_hash(frame, seed_) & (slots_.size() - 1) & ~(ways - 1);
}

ClosingFlow* ClosingFlows::search(const Frame& frame, MonotonicTime now) noexcept {
  ClosingFlow* const set = &slots_[set_of(frame)];
  ClosingFlow* const found = std::find_if(set, set + ways, [&](const ClosingFlow& flow) noexcept {
    return flow.expires > now && belongs(flow, frame);
  });
  return found == set + ways ? nullptr : found;
}

void ClosingFlows::insert(const ClosingFlow& flow, const Frame& frame, MonotonicTime now) noexcept {
  ClosingFlow* const set = &slots_[set_of(frame)];
  ClosingFlow* slot =
      std::find_if(set, set + ways, [&](const ClosingFlow& each) noexcept { return belongs(each, frame); });
  if (slot == set + ways)
    slot = std::min_element(set, set + ways, [](const ClosingFlow& a, const ClosingFlow& b) noexcept {
      return a.expires < b.expires;
    });
  *slot = flow;
  slot->expires = last_expiry_ = now + lifetime;
}

}  // namespace weir::filter
