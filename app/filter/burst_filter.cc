// SPDX-License-Identifier: BSD-3-Clause
#include "filter/burst_filter.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "weir/mbuf.h"

namespace weir::filter {
namespace {

// The work on a burst goes in passes, each over all its frames, rather than frame by frame: what one pass has
// written in small pieces the next one reads in large ones, and a processor stalls on that as long as the
// pieces are on their way to the cache. So memory also has the time of a whole pass to answer.
//
// Most frames of most networks carry no request: acknowledgments, answers, what is no HTTP at all. So the
// first pass does no more than tell which frames may, by the one line that holds a plain frame's headers and
// its payload's first byte; what follows is for those alone.
//
// There are two such passes. Where hardly any frame is of concern, all are looked at together (burst_look.h),
// which takes the least work. Where most are, work is not what there is too much of: their other lines, three
// of each, must have been asked for as early as can be, each as soon as the frame's first line is there.

// A frame's head is searched from its first byte on; what lies further behind the processor sees coming by
// itself.
constexpr std::size_t fetched_bytes = 256;

/// @param bytes  of a plain frame with a payload
bool may_hold_request(const std::byte* bytes, PlainPayload payload) noexcept {
  return can_begin_request(static_cast<char>(bytes[payload.offset])) &&
         can_carry_request(plain_tcp_flags({bytes, payload.offset}));
}

const std::byte* data_of(const rte_mbuf* mbuf) noexcept { return rte_pktmbuf_mtod(mbuf, const std::byte*); }

// Always so many lines, however long the frame is: to fetch what lies behind it costs less than to find that
// out.
void prefetch_head(const std::byte* bytes) noexcept {
  for (std::size_t at = RTE_CACHE_LINE_SIZE; at < fetched_bytes; at += RTE_CACHE_LINE_SIZE)
    rte_prefetch0(bytes + at);
}

/// Whether a frame may be of one of these flows.
bool may_hold(const ClosingFlows& flows, const rte_mbuf* mbuf) noexcept {
  const std::byte* const bytes = data_of(mbuf);
  const bool is_plain = mbuf->nb_segs == 1 && plain_payload({bytes, rte_pktmbuf_data_len(mbuf)}).offset != 0;
  return !is_plain || flows.may_hold(bytes);
}

bool wants_endpoints(const Rule& rule) noexcept {
  using Kind = Dimension::Kind;
  return !rule.match.destination_ports.empty() ||
         std::any_of(rule.key.begin(), rule.key.end(), [](const Dimension& dimension) {
           return dimension.kind == Kind::source_address || dimension.kind == Kind::destination_address ||
                  dimension.kind == Kind::destination_port;
         });
}

}  // namespace

struct BurstFilter::Batch {
  BurstLook look;

  // The frames that concern the filter, and where they are in the burst. One that is not plain, in several
  // pieces, or that may be of a closing flow, has no payload here.
  std::array<PlainFrame, burst_size> concerns;
  std::array<std::uint8_t, burst_size> indices;
  std::size_t concern_count = 0;
  std::uint32_t admitted = 0;          // bit i: the request that is all of concerns[i] has been admitted
  std::array<Fate, burst_size> fates;  // of an eventful burst
  std::uint32_t dropped = 0;           // bit i: burst[i] is, and its fate is not told
  PlainDecisions decisions_of_plain;

  // Requests waiting for a decision; views into the burst's frames and into `scratch`.
  std::array<Request, batch_size> requests;
  std::array<Decision, batch_size> decisions;
  std::array<std::uint8_t, batch_size> origin;  // index of the request's frame in the burst
  std::size_t count = 0;
  // The requests' headers, as many places each as the rules name headers.
  std::array<Header, batch_size * max_chosen_headers> headers;

  std::array<std::byte, scratch_size> scratch;
};

BurstFilter::BurstFilter(Throttle& throttle, Worker& worker, const Wiring& wiring, Counters& counters,
                         std::uint64_t seed)
    : worker_(worker),
      headers_(throttle.headers()),
      rules_(throttle.config().rules),
      texts_(rules_.begin(), rules_.end()),
      endpoints_wanted_(std::any_of(rules_.begin(), rules_.end(), wants_endpoints)),
      wiring_(wiring),
      counters_(counters),
      closing_(closing_capacity, seed),
      batch_(std::make_unique<Batch>()) {}

BurstFilter::~BurstFilter() = default;

std::size_t BurstFilter::memory(std::size_t rules) noexcept {
  return sizeof(BurstFilter) + sizeof(Batch) + ClosingFlows::memory(closing_capacity) +
         rules * RefusalText::memory();
}

bool BurstFilter::passes_without_time(std::span<rte_mbuf* const> burst, Side from) noexcept {
  look_through(burst, requests_expected_[static_cast<std::size_t>(from)]);
  if (batch_->concern_count == 0) return true;
  admit_plain(from);
  // While a flow is closing it is time that ends this.
  return batch_->admitted == all_concerns() && closing_.idle();
}

/// Finds the frames that may carry a request, or be of a closing flow.
void BurstFilter::look_through(std::span<rte_mbuf* const> burst, bool& requests_expected) noexcept {
  if (!closing_.idle()) [[unlikely]]
    look_one_by_one<true>(burst);
  else if (requests_expected)
    look_one_by_one<false>(burst);
  else
    look_at_all(burst);
  requests_expected = 2 * batch_->concern_count > burst.size();
}

/// As suits many requests.
/// @tparam closing  some flow is
template <bool closing>
void BurstFilter::look_one_by_one(std::span<rte_mbuf* const> burst) noexcept {
  Batch& batch = *batch_;
  // A device has written an mbuf's own fields just now; another thread's ring hands on those that it wrote.
#pragma GCC unroll 4
  for (const rte_mbuf* const mbuf : burst) rte_prefetch0(mbuf);
#pragma GCC unroll 4
  for (const rte_mbuf* const mbuf : burst) rte_prefetch0(data_of(mbuf));
  std::size_t concerns = 0;
  for (std::size_t i = 0; i < burst.size(); ++i) {
    const rte_mbuf* const mbuf = burst[i];
    const std::byte* const bytes = data_of(mbuf);
    const PlainPayload payload = plain_payload({bytes, rte_pktmbuf_data_len(mbuf)});
    if (payload.offset != 0 && mbuf->nb_segs == 1) [[likely]] {
      bool plain = true;
      if constexpr (closing) plain = !closing_.may_hold(bytes);
      if (!plain) closing_.prefetch(bytes);
      if ((payload.length == 0 || !may_hold_request(bytes, payload)) && plain) continue;
      prefetch_head(bytes);
      batch.concerns[concerns] = {bytes, plain ? payload : PlainPayload{}};
      batch.indices[concerns++] = static_cast<std::uint8_t>(i);
    } else if (look_closely(mbuf)) {
      batch.concerns[concerns] = {};
      batch.indices[concerns++] = static_cast<std::uint8_t>(i);
    }
  }
  batch.concern_count = concerns;
}

/// As suits few, or none. @pre no flow is closing
void BurstFilter::look_at_all(std::span<rte_mbuf* const> burst) noexcept {
  Batch& batch = *batch_;
  BurstLook& look = batch.look;
  look_at_burst_(burst, look);
  std::size_t concerns = 0;
  for (std::uint32_t rest = look.opening | look.odd; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if ((look.opening >> i & 1) != 0) {
      if (!may_hold_request(look.bytes[i], look.payloads[i])) [[unlikely]]
        continue;
      prefetch_head(look.bytes[i]);
      batch.concerns[concerns] = {look.bytes[i], look.payloads[i]};
    } else if (look_closely(burst[i])) {
      batch.concerns[concerns] = {};
    } else {
      continue;
    }
    batch.indices[concerns++] = static_cast<std::uint8_t>(i);
  }
  batch.concern_count = concerns;
}

/// Of a frame that is not plain, or in several pieces. @return whether it is of concern
[[gnu::noinline]] bool BurstFilter::look_closely(const rte_mbuf* mbuf) noexcept {
  const std::span<const std::byte> bytes = frame_bytes(mbuf, batch_->scratch);
  const Frame frame = parse_frame(bytes);
  if (frame.kind == FrameKind::malformed) counters_.malformed.add(1);
  if (frame.kind != FrameKind::tcp) return false;
  const std::string_view payload = request_payload(bytes, frame);
  if ((payload.empty() || !can_begin_request(payload.front())) &&
      (closing_.idle() || !closing_.may_hold(frame)))
    return false;
  prefetch_head(data_of(mbuf));
  return true;
}

bool BurstFilter::passes_in_time(std::span<rte_mbuf* const> burst, MonotonicTime now,
                                 Outgoing& out) noexcept {
  Batch& batch = *batch_;
  closing_changed_ = false;
  eventful_ = false;
  closing_.expire(now);
  batch.dropped = 0;
  std::uint32_t rest = all_concerns() & ~batch.admitted;
  for (rest &= ~decide_plain(now); rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (batch.concerns[i].payload.offset != 0) [[likely]]
      classify(i, now);
    else
      classify_closely(batch.indices[i], burst[batch.indices[i]], now);
  }
  decide(now);
  if (!eventful_ && batch.dropped == 0) return true;
  act_on_all(burst, now, out);
  return false;
}

void BurstFilter::act_on_all(std::span<rte_mbuf* const> burst, MonotonicTime now, Outgoing& out) noexcept {
  Batch& batch = *batch_;
  std::array<rte_mbuf*, burst_size> dropped;
  std::size_t drops = 0;
  for (std::size_t i = 0; i < burst.size(); ++i) {
    const bool may_be_closing = closing_changed_ && may_hold(closing_, burst[i]);
    if ((batch.dropped >> i & 1) != 0) {
      if (!may_be_closing) [[likely]] {
        dropped[drops++] = burst[i];
        continue;
      }
      Fate& fate = fate_of(i);
      fate.kind = Fate::Kind::refuse;
      fate.action = Action::drop;
    }
    if (may_be_closing || (eventful_ && batch.fates[i].kind != Fate::Kind::pass))
      act(i, burst[i], may_be_closing, now, out);
    else
      pass(burst[i], out);
  }
  if (drops == 0) return;
  rte_pktmbuf_free_bulk(dropped.data(), static_cast<unsigned>(drops));
  counters_.consumed.add(drops);
  counters_.dropped.add(drops);
}

/// A bit for each. @pre there are some
std::uint32_t BurstFilter::all_concerns() const noexcept {
  static_assert(burst_size == 32, "a burst's frames are the bits of a word");
  return ~std::uint32_t{0} >> (burst_size - batch_->concern_count);
}

/// The fate of a frame that may not simply pass.
BurstFilter::Fate& BurstFilter::fate_of(std::size_t index) noexcept {
  if (!eventful_) {
    eventful_ = true;
    batch_->fates.fill({});
  }
  return batch_->fates[index];
}

/// Whether a frame is of a closing flow, and if so notes it.
bool BurstFilter::is_closing(std::size_t index, const Frame& frame, MonotonicTime now) noexcept {
  ClosingFlow* const flow = closing_.find(frame, now);
  if (flow == nullptr) return false;
  const ClosingStep step = closing_step(*flow, frame);
  if (step == ClosingStep::forget) {
    ClosingFlows::erase(*flow);
    return false;
  }
  Fate& fate = fate_of(index);
  fate.kind = Fate::Kind::closing;
  fate.step = step;
  return true;
}

/// Most requests are plain, and most keys have enough ready: these need no more than this.
void BurstFilter::admit_plain(Side from) noexcept {
  Batch& batch = *batch_;
  batch.admitted = 0;
  tried_for_ = nullptr;
  PlainTries& tries = plain_tries_[static_cast<std::size_t>(from)];
  if (tries.bursts_without > 0) {
    --tries.bursts_without;
    return;
  }
  tried_for_ = &tries;
  batch.admitted = worker_.admit_plain(std::span{batch.concerns}.first(batch.concern_count));
  if (is_worth_it(batch.admitted)) tries.in_vain = 0;  // where it is all of them nobody asks for more
  count_decided(batch.admitted, 0);
}

/// Whether enough of the frames have been decided on as plain for the attempt to save more than it costs.
bool BurstFilter::is_worth_it(std::uint32_t decided) const noexcept {
  return static_cast<std::size_t>(std::popcount(decided)) * few_divisor >= batch_->concern_count;
}

void BurstFilter::count_decided(std::uint32_t admitted, std::uint32_t refused) noexcept {
  counters_.requests.add(static_cast<std::uint64_t>(std::popcount(admitted | refused)));
  counters_.admitted.add(static_cast<std::uint64_t>(std::popcount(admitted)));
  counters_.blocked.add(static_cast<std::uint64_t>(std::popcount(refused)));
}

/// Nor do those that lack something need more. @return bit i: concerns[i] has been decided on
std::uint32_t BurstFilter::decide_plain(MonotonicTime now) noexcept {
  if (tried_for_ == nullptr) return 0;
  Batch& batch = *batch_;
  PlainDecisions& decisions = batch.decisions_of_plain;
  worker_.decide_plain(now, decisions);
  const std::uint32_t decided = decisions.admitted | decisions.refused;
  if (is_worth_it(batch.admitted | decided))
    tried_for_->in_vain = 0;
  else if (tried_for_->in_vain < most_in_vain)
    ++tried_for_->in_vain;
  else
    tried_for_->bursts_without = bursts_between_tries;
  if (decided == 0) return 0;
  count_decided(decisions.admitted, decisions.refused);
  for (std::uint32_t rest = decisions.refused; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    const RuleIndex rule = decisions.rules[at];
    const Action action = rules_[rule].action;
    if (action == Action::drop) {
      batch.dropped |= std::uint32_t{1} << batch.indices[at];
      continue;
    }
    const auto& [bytes, payload] = batch.concerns[at];
    if (action == Action::reply_429) closing_.prefetch(bytes);
    fate_of(batch.indices[at]) = {.kind = Fate::Kind::refuse,
                                  .action = action,
                                  .head = std::memcmp(bytes + payload.offset, "HEAD ", 5) == 0,
                                  .rule = rule,
                                  .retry_after = decisions.retry_after[at]};
  }
  return decided;
}

/// A plain frame, of no closing flow.
[[gnu::noinline]] void BurstFilter::classify(std::size_t concern, MonotonicTime now) noexcept {
  Batch& batch = *batch_;
  const auto& [bytes, payload] = batch.concerns[concern];
  HttpRequests requests({reinterpret_cast<const char*>(bytes) + payload.offset, std::size_t{payload.length}},
                        headers_);
  const std::size_t named = headers_.size();
  do {
    if (batch.count == batch_size) [[unlikely]]
      decide(now);
    Request& request = batch.requests[batch.count];
    bool complete = false;
    if (!requests.next(request, {&batch.headers[batch.count * named], named}, complete)) return;
    if (!complete) count_if_lacking(request);
    if (endpoints_wanted_) set_plain_endpoints(request, {bytes, payload.offset});
    batch.origin[batch.count] = batch.indices[concern];
    ++batch.count;
  } while (requests.has_more());
}

/// Of a request whose head goes on in the next segment.
void BurstFilter::count_if_lacking(const Request& request) noexcept {
  const bool lacks_host = headers_.wants_host() && request.host.empty();
  if (lacks_host || request.headers.size() < headers_.size()) counters_.cut_heads.add(1);
}

/// Any other.
[[gnu::noinline]] void BurstFilter::classify_closely(std::size_t index, const rte_mbuf* mbuf,
                                                     MonotonicTime now) noexcept {
  Batch& batch = *batch_;
  // A chain is gathered into the one scratch there is: whatever still looks into it must be decided first.
  if (mbuf->nb_segs > 1) decide(now);
  const std::span<const std::byte> bytes = frame_bytes(mbuf, batch.scratch);
  const Frame frame = parse_frame(bytes);
  if (is_closing(index, frame, now)) return;
  HttpRequests requests(request_payload(bytes, frame), headers_);
  const std::size_t named = headers_.size();
  while (true) {
    if (batch.count == batch_size) decide(now);
    Request& request = batch.requests[batch.count];
    bool complete = false;
    if (!requests.next(request, {&batch.headers[batch.count * named], named}, complete)) return;
    if (!complete) count_if_lacking(request);
    if (endpoints_wanted_) set_endpoints(request, frame);
    batch.origin[batch.count] = static_cast<std::uint8_t>(index);
    ++batch.count;
  }
}

void BurstFilter::decide(MonotonicTime now) noexcept {
  Batch& batch = *batch_;
  const std::size_t count = batch.count;
  if (count == 0) return;
  batch.count = 0;
  worker_.admit_burst(std::span{batch.requests}.first(count), now, std::span{batch.decisions}.first(count),
                      Detail::refusals);
  std::uint64_t blocked = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Decision& decision = batch.decisions[i];
    if (decision.verdict != Verdict::block) continue;
    ++blocked;
    // The first refused request speaks for its frame.
    Fate& fate = fate_of(batch.origin[i]);
    if (fate.kind == Fate::Kind::refuse) continue;
    fate.kind = Fate::Kind::refuse;
    fate.action = decision.action;
    fate.head = batch.requests[i].method == "HEAD";
    fate.rule = decision.rule;
    fate.retry_after = decision.retry_after;
  }
  counters_.requests.add(count);
  counters_.admitted.add(count - blocked);
  counters_.blocked.add(blocked);
}

/// @param may_be_closing  its flow may have been closed by this burst
void BurstFilter::act(std::size_t index, rte_mbuf* mbuf, bool may_be_closing, MonotonicTime now,
                      Outgoing& out) noexcept {
  const Frame frame = parse_frame(frame_bytes(mbuf, batch_->scratch));
  const Fate& fate = batch_->fates[index];
  if (may_be_closing && fate.kind != Fate::Kind::closing && frame.kind == FrameKind::tcp)
    is_closing(index, frame, now);
  switch (fate.kind) {
    case Fate::Kind::pass:
      pass(mbuf, out);
      return;
    case Fate::Kind::refuse:
      refuse(mbuf, frame, fate, now, out);
      break;
    case Fate::Kind::closing:
      close(mbuf, frame, fate.step, now, out);
      break;
  }
  counters_.consumed.add(1);
  rte_pktmbuf_free(mbuf);
}

void BurstFilter::refuse(rte_mbuf* mbuf, const Frame& frame, const Fate& fate, MonotonicTime now,
                         Outgoing& out) noexcept {
  bool answered = false;
  // Before the handshake has ended there is no stream to put a response into.
  const bool can_reply = (frame.tcp_flags & tcp_syn) == 0 && fate.rule < rules_.size();
  if (fate.action == Action::reply_429 && can_reply) {
    const Refusal refusal{&texts_[fate.rule], whole_seconds(fate.retry_after), fate.head};
    const std::optional<std::size_t> reply_length = answer_429(mbuf, frame, refusal, out);
    answered = reply_length.has_value();
    if (answered) {
      ClosingFlow flow = closing_flow(frame, *reply_length);
      flow.rule = fate.rule;
      flow.head = fate.head;
      flow.retry_after_seconds = refusal.retry_after_seconds;
      closing_.insert(flow, frame, now);
      closing_changed_ = true;
    }
  } else if (fate.action != Action::drop) {
    answered = answer_reset(mbuf, frame, out);
  }
  if (!answered) counters_.dropped.add(1);
}

void BurstFilter::close(rte_mbuf* mbuf, const Frame& frame, ClosingStep step, MonotonicTime now,
                        Outgoing& out) noexcept {
  counters_.absorbed.add(1);
  const ClosingFlow* const flow = closing_.find(frame, now);
  if (flow == nullptr) return;  // pushed out by a later one of this very burst
  if (step == ClosingStep::repeat_reply) {
    answer_429(mbuf, frame, {&texts_[flow->rule], flow->retry_after_seconds, flow->head}, out);
  } else if (step == ClosingStep::acknowledge) {
    const Segment segment{frame_bytes(mbuf, batch_->scratch), frame};
    rte_mbuf* const acknowledgment = crafted(mbuf->port, [&](std::span<std::byte> to) noexcept {
      return craft_acknowledgment(segment, flow->next_to_client, flow->next_from_client, to);
    });
    if (acknowledgment == nullptr) return;  // the client sends again, and is answered then
    out.frames[out.count++] = acknowledgment;
    counters_.crafted.add(1);
  }
}

std::optional<std::size_t> BurstFilter::answer_429(rte_mbuf* mbuf, const Frame& frame, const Refusal& refusal,
                                                   Outgoing& out) noexcept {
  const Segment request{frame_bytes(mbuf, batch_->scratch), frame};
  CraftedReply reply;
  rte_mbuf* const to_client = crafted(mbuf->port, [&](std::span<std::byte> to) noexcept {
    reply = craft_reply_429(request, refusal, to);
    return reply.frame_length;
  });
  rte_mbuf* const to_server = crafted(wiring_.ports[mbuf->port].peer, [&](std::span<std::byte> to) noexcept {
    return craft_reset_to_server(request, to);
  });
  if (!send_both(to_client, to_server, out)) return std::nullopt;
  return reply.payload_length;
}

bool BurstFilter::answer_reset(rte_mbuf* mbuf, const Frame& frame, Outgoing& out) noexcept {
  const Segment request{frame_bytes(mbuf, batch_->scratch), frame};
  return send_both(
      crafted(mbuf->port,
              [&](std::span<std::byte> to) noexcept { return craft_reset_to_client(request, to); }),
      crafted(wiring_.ports[mbuf->port].peer,
              [&](std::span<std::byte> to) noexcept { return craft_reset_to_server(request, to); }),
      out);
}

bool BurstFilter::send_both(rte_mbuf* to_client, rte_mbuf* to_server, Outgoing& out) noexcept {
  // One end alone would leave the other with half a connection.
  if (to_client == nullptr || to_server == nullptr) {
    rte_pktmbuf_free(to_client);
    rte_pktmbuf_free(to_server);
    return false;
  }
  out.frames[out.count++] = to_client;
  out.frames[out.count++] = to_server;
  counters_.crafted.add(2);
  return true;
}

template <typename Write>
rte_mbuf* BurstFilter::crafted(std::uint16_t port, const Write& write) noexcept {
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(wiring_.ports[port].pool);
  if (mbuf == nullptr) return nullptr;
  const std::size_t length = write(
      std::span{rte_pktmbuf_mtod(mbuf, std::byte*), static_cast<std::size_t>(rte_pktmbuf_tailroom(mbuf))});
  if (length == 0) {
    rte_pktmbuf_free(mbuf);
    return nullptr;
  }
  mbuf->data_len = static_cast<std::uint16_t>(length);
  mbuf->pkt_len = static_cast<std::uint32_t>(length);
  mbuf->port = port;
  return mbuf;
}

}  // namespace weir::filter
