// SPDX-License-Identifier: BSD-3-Clause
#include "filter/burst_filter.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <new>

#include "weir/mbuf.h"

namespace weir::filter {
namespace {

// The work on a burst goes in passes, each over all its frames, rather than frame by frame: what one pass has
// written in small pieces the next one reads in large ones, and a processor stalls on that as long as the
// pieces are on their way to the cache. So memory also has the time of a whole pass to answer.

// A frame's head is searched from its first byte on; what lies further behind the processor sees coming by
// itself.
constexpr std::size_t fetched_bytes = 256;
// Memory answers many requests at once, and one frame's parsing is too short to wait for the next.
constexpr std::size_t fetched_ahead = 8;

// Always so many lines, however long the frame is: to fetch what lies behind it costs less than to find that
// out.
void prefetch(const rte_mbuf* mbuf) noexcept {
  const auto* const bytes = rte_pktmbuf_mtod(mbuf, const std::byte*);
  for (std::size_t at = 0; at < fetched_bytes; at += RTE_CACHE_LINE_SIZE) rte_prefetch0(bytes + at);
}

}  // namespace

struct BurstFilter::Batch {
  std::array<Frame, burst_size> frames;
  std::array<Fate, burst_size> fates;

  // Requests waiting for a decision; views into the burst's frames and into `scratch`.
  std::array<ParsedRequest, batch_size> parsed;
  std::array<Request, batch_size> requests;  // admit_burst() wants them side by side
  std::array<Decision, batch_size> decisions;
  std::array<std::uint8_t, batch_size> origin;  // index of the request's frame in the burst
  std::size_t count = 0;

  std::array<std::byte, scratch_size> scratch;
};

BurstFilter::BurstFilter(Throttle& throttle, Worker& worker, const Wiring& wiring, Counters& counters,
                         std::uint64_t seed)
    : worker_(worker),
      headers_(throttle.headers()),
      rules_(throttle.config().rules),
      wiring_(wiring),
      counters_(counters),
      closing_(closing_capacity, seed),
      batch_(std::make_unique<Batch>()) {}

BurstFilter::~BurstFilter() = default;

std::size_t BurstFilter::memory() noexcept {
  return sizeof(BurstFilter) + sizeof(Batch) + closing_capacity * sizeof(ClosingFlow);
}

void BurstFilter::process(std::span<rte_mbuf* const> burst, MonotonicTime now, Outgoing& out) noexcept {
  closing_changed_ = false;
  // A device has written an mbuf's own fields just now; another thread's ring hands on those that it wrote.
  for (rte_mbuf* const mbuf : burst) rte_prefetch0(mbuf);
  for (std::size_t i = 0; i < std::min(burst.size(), fetched_ahead); ++i) prefetch(burst[i]);
  for (std::size_t i = 0; i < burst.size(); ++i) {
    if (i + fetched_ahead < burst.size()) prefetch(burst[i + fetched_ahead]);
    parse(i, burst[i]);
  }
  for (std::size_t i = 0; i < burst.size(); ++i) classify(i, burst[i], now);
  decide(now);
  for (std::size_t i = 0; i < burst.size(); ++i) {
    if (batch_->fates[i].kind == Fate::Kind::pass && !closing_changed_)
      pass(burst[i], out);
    else
      act(i, burst[i], now, out);
  }
}

void BurstFilter::parse(std::size_t index, const rte_mbuf* mbuf) noexcept {
  Batch& batch = *batch_;
  // Made in its place: as an assignment it would be copied at once.
  const Frame* const frame =
      ::new (&batch.frames[index]) Frame(parse_frame(frame_bytes(mbuf, batch.scratch)));
  batch.fates[index] = {};
  if (frame->kind == FrameKind::malformed) counters_.malformed.add(1);
}

void BurstFilter::classify(std::size_t index, rte_mbuf* mbuf, MonotonicTime now) noexcept {
  Batch& batch = *batch_;
  const Frame& frame = batch.frames[index];
  if (frame.kind != FrameKind::tcp) return;

  if (ClosingFlow* const flow = closing_.find(frame, now)) {
    Fate& fate = batch.fates[index];
    fate.step = closing_step(*flow, frame);
    if (fate.step != ClosingStep::forget) {
      fate.kind = Fate::Kind::closing;
      return;
    }
    ClosingFlows::erase(*flow);
  }

  // A chain is gathered into the one scratch there is: whatever still looks into it must be decided first.
  if (mbuf->nb_segs > 1) decide(now);
  HttpRequests requests(tcp_payload(frame_bytes(mbuf, batch.scratch), frame), headers_);
  while (true) {
    if (batch.count == batch_size) decide(now);
    if (!requests.next(batch.parsed[batch.count])) return;
    batch.origin[batch.count] = static_cast<std::uint8_t>(index);
    ++batch.count;
  }
}

void BurstFilter::decide(MonotonicTime now) noexcept {
  Batch& batch = *batch_;
  const std::size_t count = batch.count;
  if (count == 0) return;
  batch.count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    batch.requests[i] = batch.parsed[i].request;
    set_endpoints(batch.requests[i], batch.frames[batch.origin[i]]);
  }
  worker_.admit_burst(std::span{batch.requests}.first(count), now, std::span{batch.decisions}.first(count),
                      Detail::refusals);
  std::uint64_t blocked = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Decision& decision = batch.decisions[i];
    if (decision.verdict != Verdict::block) continue;
    ++blocked;
    Fate& fate = batch.fates[batch.origin[i]];
    // The first refused request speaks for its frame.
    if (decision.action == Action::observe || fate.kind == Fate::Kind::refuse) continue;
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

void BurstFilter::act(std::size_t index, rte_mbuf* mbuf, MonotonicTime now, Outgoing& out) noexcept {
  const Frame& frame = batch_->frames[index];
  Fate& fate = batch_->fates[index];
  if (closing_changed_ && fate.kind != Fate::Kind::closing && frame.kind == FrameKind::tcp) {
    if (ClosingFlow* const flow = closing_.find(frame, now)) {
      fate.step = closing_step(*flow, frame);
      if (fate.step == ClosingStep::forget)
        ClosingFlows::erase(*flow);
      else
        fate.kind = Fate::Kind::closing;
    }
  }
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
    const Refusal refusal{&rules_[fate.rule], whole_seconds(fate.retry_after), fate.head};
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
    answer_429(mbuf, frame, {&rules_[flow->rule], flow->retry_after_seconds, flow->head}, out);
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
