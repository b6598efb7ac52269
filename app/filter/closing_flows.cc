// SPDX-License-Identifier: BSD-3-Clause
#include "filter/closing_flows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "filter/flow_hash.h"
#include "filter/reply.h"

namespace weir::filter {
namespace {

/// Order of sequence numbers on their circle.
bool after(std::uint32_t a, std::uint32_t b) noexcept { return static_cast<std::int32_t>(a - b) > 0; }

/// As much as a stack may have on its way at once beyond what is known of it here, more or less.
constexpr std::uint32_t reach = 1U << 20;

bool near(std::uint32_t a, std::uint32_t b) noexcept { return a - b + reach <= 2 * reach; }

/// The library's comparison of arrays calls a function for so few bytes.
bool are_same(const IpAddress& a, const IpAddress& b) noexcept {
  return a.family == b.family && std::memcmp(a.bytes.data(), b.bytes.data(), sizeof a.bytes) == 0;
}

bool belongs(const ClosingFlow& flow, const Frame& frame) noexcept {
  return flow.client_port == frame.source_port && flow.server_port == frame.destination_port &&
         are_same(flow.client, frame.source) && are_same(flow.server, frame.destination);
}

}  // namespace

ClosingStep closing_step(ClosingFlow& flow, const Frame& frame) noexcept {
  if ((frame.tcp_flags & (tcp_syn | tcp_rst)) != 0) return ClosingStep::forget;
  if (!near(frame.sequence, flow.next_from_client) || !near(frame.acknowledgment, flow.next_to_client))
    return ClosingStep::forget;
  const std::uint32_t end = sequence_end(frame);
  if (!after(frame.sequence, flow.next_from_client) && after(end, flow.next_from_client))
    flow.next_from_client = end;
  const bool has_data = end != frame.sequence;
  // Were it acknowledged what stands behind the request, the client would not send that again, and never get
  // a 429 that was lost.
  if (!after(frame.acknowledgment, flow.reply_sequence)) {
    // The 429 is made for the frame that it answers: one from before would put it before its place.
    const bool brings_reply = has_data && frame.acknowledgment == flow.reply_sequence &&
                              !after(frame.sequence, flow.request_sequence);
    return brings_reply ? ClosingStep::repeat_reply : ClosingStep::absorb;
  }
  if (!has_data && flow.acknowledged == flow.next_from_client) return ClosingStep::absorb;
  flow.acknowledged = flow.next_from_client;
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
  flow.next_from_client = flow.acknowledged = sequence_end(frame);
  return flow;
}

ClosingFlows::ClosingFlows(std::size_t capacity, std::uint64_t seed)
    : slots_(std::bit_ceil(std::max(capacity, ways))), marks_(slots_.size() / ways) {
  for (std::uint64_t& multiplier : multipliers_) multiplier = (seed = mix(seed + 1)) | 1;
}

/// As Ends::of() has those of a plain frame.
ClosingFlows::Ends ClosingFlows::ends_of(const Frame& frame) const noexcept {
  const auto in_frame_order = [](std::uint16_t port) noexcept {
    return std::endian::native == std::endian::little ? static_cast<std::uint16_t>(port << 8 | port >> 8)
                                                      : port;
  };
  const std::array<std::uint16_t, 2> ports{in_frame_order(frame.source_port),
                                           in_frame_order(frame.destination_port)};
  Ends ends;
  std::memcpy(&ends.ports, ports.data(), sizeof ends.ports);
  if (frame.source.family == IpAddress::Family::v4) {
    constexpr std::size_t size = 4;
    std::array<std::uint8_t, 2 * size> both;
    std::copy_n(frame.source.bytes.begin(), size, both.begin());
    std::copy_n(frame.destination.bytes.begin(), size, both.begin() + size);
    std::memcpy(&ends.addresses, both.data(), sizeof ends.addresses);
    return ends;
  }
  ends.addresses = 0;
  for (const IpAddress* const address : {&frame.source, &frame.destination}) {
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), address->bytes.data(), sizeof halves);
    for (const std::uint64_t half : halves) ends.addresses = mix((ends.addresses ^ half) + multipliers_[0]);
  }
  return ends;
}

ClosingFlow* ClosingFlows::slot_of(std::uint64_t hash, const Frame& frame) noexcept {
  ClosingFlow* const set = &slots_[set_of(hash) * ways];
  for (std::uint32_t rest = marked(hash); rest != 0; rest &= rest - 1) {
    ClosingFlow& flow = set[std::countr_zero(rest) / 8];
    if (belongs(flow, frame)) return &flow;
  }
  return nullptr;
}

ClosingFlow* ClosingFlows::search(const Frame& frame, MonotonicTime now) noexcept {
  ClosingFlow* const flow = slot_of(hash_of(ends_of(frame)), frame);
  return flow != nullptr && flow->expires > now ? flow : nullptr;
}

void ClosingFlows::insert(const ClosingFlow& flow, const Frame& frame, MonotonicTime now) noexcept {
  const std::uint64_t hash = hash_of(ends_of(frame));
  ClosingFlow* const set = &slots_[set_of(hash) * ways];
  ClosingFlow* slot = slot_of(hash, frame);
  if (slot == nullptr)
    slot = std::min_element(set, set + ways, [](const ClosingFlow& a, const ClosingFlow& b) noexcept {
      return a.expires < b.expires;
    });
  const auto at = static_cast<unsigned>(8 * (slot - set));
  std::uint32_t& marks = marks_[set_of(hash)];
  marks = (marks & ~(0xffU << at)) | std::uint32_t{mark_of(hash)} << at;
  *slot = flow;
  slot->expires = last_expiry_ = now + lifetime;
}

}  // namespace weir::filter
