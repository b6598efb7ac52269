// SPDX-License-Identifier: BSD-3-Clause
#include "store/exchange/exchange_group.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <utility>

#include "store/exchange/records.h"

namespace weir {
namespace {

/// A record of a summary, about: an id and a count of a few hundreds.
constexpr std::size_t record_size = 10;

HashKey key_from(std::string_view seed) noexcept {
  const Digest128 digest = digest128({}, std::as_bytes(std::span(seed)));
  return {digest.low, digest.high};
}

std::uint64_t saturated(std::uint64_t a, std::uint64_t b) noexcept {
  return std::min(a, Outbox::max_delta) + std::min(b, Outbox::max_delta - std::min(a, Outbox::max_delta));
}

}  // namespace

ExchangeGroup::ExchangeGroup(std::string writer, std::string seed, std::uint64_t scatter)
    : writer_(std::move(writer)), seed_(std::move(seed)), key_(key_from(seed_)), table_(scatter) {}

std::uint64_t ExchangeGroup::id_of(std::string_view name) const noexcept {
  const std::uint64_t id = keyed_hash(key_, 0, std::as_bytes(std::span(name)));
  return id == 0 ? 1 : id;  // 0 is no counter's
}

void ExchangeGroup::begin(const OutboxBatch& batch) {
  ++turn_;
  waiting_ = false;
  if (out_ == batch.sequence && begun_) {
    // Whatever is known to be missing; where nothing is known, what can be guessed.
    if (applied_)
      ask_for_missing();
    else
      ask_for_next();
    return;
  }
  assert(out_ == 0 || out_ == batch.sequence);
  out_ = batch.sequence;
  begun_ = true;
  applied_ = false;
  batch_.clear();
  piece_.clear();
  bool unknown = false;
  for (const OutboxEntry& entry : batch.entries) {
    const std::uint64_t id = id_of(batch.name(entry));
    unknown = unknown || table_.find(id) == nullptr;
    const ExchangeCounter& counter = table_.insert(id);
    const bool refused = entry.delta > Outbox::max_delta - std::min(counter.own, Outbox::max_delta);
    batch_.push_back({id, entry.delta, refused});
    if (entry.delta > 0 && !refused) append_record(piece_, {id, entry.delta});
  }
  // What the others have counted of it may have been left out.
  if (partial_ && unknown) {
    forget_others();
    ++rereads_;
  }
  if (!rewriting_ && pieces_size_ > std::max(least_log, record_size * counted_)) {
    std::size_t kept = 0;
    std::size_t size = 0;
    while (kept < pieces_.size()) {
      size += pieces_[pieces_.size() - kept - 1].size() + piece_overhead;
      if (size > pieces_size_ / 2) break;
      ++kept;
    }
    summarise(kept);
  }
  ask_for_next();
}

void ExchangeGroup::summarise(std::size_t kept) {
  while (pieces_.size() > kept) {
    pieces_size_ -= pieces_.front().size() + piece_overhead;
    pieces_.pop_front();
    ++covered_;
  }
  std::unordered_map<std::uint64_t, std::uint64_t> later;
  for (const std::string& piece : pieces_) {
    RecordReader reader(piece);
    while (const auto record = reader.next()) later[record->id] += record->delta;
  }
  summaries_.clear();
  std::size_t records = 0;
  table_.for_each([&](const ExchangeCounter& counter) {
    const auto found = later.find(counter.id);
    const std::uint64_t sum = counter.own - std::min(counter.own, found == later.end() ? 0 : found->second);
    if (sum == 0) return;
    if (records++ % summary_records == 0) summaries_.emplace_back();
    append_record(summaries_.back(), {counter.id, sum});
  });
  ++generation_;
  rewriting_ = true;
}

void ExchangeGroup::adopt(std::string_view seed) {
  seed_ = seed;
  key_ = key_from(seed_);
  const bool has_counted = generation_ > 0 || covered_ + pieces_.size() > 0;
  table_.clear();
  counted_ = 0;
  forget_others();
  summarise(0);
  // A log that was never begun needs no summary.
  if (!has_counted) {
    generation_ = 0;
    rewriting_ = false;
  }
  begun_ = false;
}

ExchangeCall ExchangeGroup::call() const noexcept {
  return {
      .seed = seed_,
      .writer = writer_,
      .generation = generation_,
      .number = covered_ + pieces_.size(),
      .piece = piece_,
      .covered = rewriting_ ? std::optional(covered_) : std::nullopt,
      .summaries = rewriting_ ? std::span<const std::string>(summaries_) : std::span<const std::string>()};
}

void ExchangeGroup::ask(std::size_t log, bool summary, std::uint64_t number) {
  const Log& of = logs_[log];
  fields_.push_back(of.writer + ':');
  if (summary) fields_.back() += std::to_string(of.state.generation) + '.';
  fields_.back() += std::to_string(number);
  asked_.push_back({log, number, summary});
  waiting_ = true;
}

void ExchangeGroup::ask_for_next() {
  fields_.clear();
  asked_.clear();
  for (std::size_t i = 0; i < logs_.size() && fields_.size() < most_guessed; ++i)
    if (logs_[i].next) ask(i, false, *logs_[i].next);
}

void ExchangeGroup::ask_for_missing() {
  fields_.clear();
  asked_.clear();
  std::uint64_t bytes = 0;
  const auto full = [&] { return fields_.size() >= most_asked || bytes >= most_asked_bytes; };
  for (std::size_t i = 0; i < logs_.size() && !full(); ++i) {
    const LogState& state = logs_[i].state;
    if (!logs_[i].next)
      for (std::uint64_t number = logs_[i].read; number < state.summaries && !full(); ++number) {
        ask(i, true, number);
        bytes += state.largest;
      }
    for (std::uint64_t number = logs_[i].next.value_or(state.covered); number < state.next && !full();
         ++number) {
      ask(i, false, number);
      bytes += state.largest;
    }
  }
}

/// @return false where a log has been shortened beyond what has been read of it
bool ExchangeGroup::take_over(const std::vector<LogState>& states) {
  for (Log& log : logs_) log.state = {};
  // Both are in the store's order.
  std::size_t at = 0;
  for (const LogState& state : states) {
    if (state.writer == writer_) continue;
    std::size_t steps = 0;
    while (steps < logs_.size() && logs_[at % logs_.size()].writer != state.writer) {
      ++at;
      ++steps;
    }
    if (steps == logs_.size()) {
      if (logs_.size() == most_logs) continue;
      at = logs_.size();
      Log& fresh = logs_.emplace_back();
      fresh.writer = state.writer;
      fresh.generation = state.generation;
      if (state.summaries == 0) fresh.next = state.covered;
    }
    Log& log = logs_[at++ % logs_.size()];
    log.state = state;
    log.state.writer = {};  // the answer's
    if (log.next ? *log.next < state.covered : log.generation != state.generation) return false;
  }
  return true;
}

ExchangeGroup::Progress ExchangeGroup::absorb(const ExchangeAnswer& answer) {
  if (answer.status != ExchangeAnswer::Status::applied) {
    applied_ = false;
    summarise(0);
    return Progress::again;
  }
  rewriting_ = false;
  summaries_.clear();
  applied_ = true;
  if (!take_over(answer.logs)) {
    forget_others();
    ++rereads_;
    take_over(answer.logs);
  }
  return go_on();
}

ExchangeGroup::Progress ExchangeGroup::absorb(std::span<const std::optional<std::string_view>> pieces,
                                              std::uint64_t turn, std::size_t room) {
  // Without the script's answer it has been refused: the batch will be sent again.
  if (turn != turn_ || !waiting_) return Progress::wait;
  waiting_ = false;
  bool gone = false;
  for (std::size_t i = 0; i < std::min(pieces.size(), asked_.size()); ++i) {
    const Asked& asked = asked_[i];
    Log& log = logs_[asked.log];
    // Of a log that has vanished from the table since, and has come back, nothing is known yet.
    const bool wanted = asked.summary
                            ? !log.next && log.read == asked.number && log.read < log.state.summaries
                            : log.next == asked.number;
    if (!wanted) continue;
    if (!pieces[i]) {
      // A guess that was none; or the log was shortened or wiped since its state was told.
      gone = gone || asked.summary || asked.number < log.state.next;
      continue;
    }
    read_piece(*pieces[i], room);
    if (!asked.summary)
      ++*log.next;
    else if (++log.read == log.state.summaries)
      log.next = log.state.covered;
  }
  if (gone || !applied_) return Progress::again;
  return go_on();
}

ExchangeGroup::Progress ExchangeGroup::go_on() {
  if (waiting_) return Progress::wait;
  ++turn_;
  ask_for_missing();
  if (waiting_) return Progress::ask;
  finish();
  return Progress::done;
}

void ExchangeGroup::forget_others() {
  table_.forget_others();
  logs_.clear();
  fields_.clear();
  asked_.clear();
  waiting_ = false;
  partial_ = false;
  ++turn_;
}

void ExchangeGroup::read_piece(std::string_view piece, std::size_t room) {
  RecordReader reader(piece);
  while (const auto record = reader.next()) {
    if (record->id == 0) break;
    ExchangeCounter* counter = table_.find(record->id);
    if (counter == nullptr) {
      if (table_.size() >= room) {
        partial_ = true;
        continue;
      }
      counter = &table_.insert(record->id);
    }
    counter->others = saturated(counter->others, record->delta);
  }
  if (piece.empty() || !reader.at_end()) ++damaged_;
}

void ExchangeGroup::finish() {
  outcomes_.clear();
  for (const Counted& counted : batch_) {
    if (counted.refused) {
      outcomes_.push_back({.applied = false});
      continue;
    }
    ExchangeCounter& counter = *table_.find(counted.id);
    if (counter.own == 0 && counted.delta > 0) ++counted_;
    counter.own = saturated(counter.own, counted.delta);
    outcomes_.push_back({.applied = true, .total = saturated(counter.own, counter.others)});
  }
  if (!piece_.empty()) {
    pieces_size_ += piece_.size() + piece_overhead;
    pieces_.push_back(std::move(piece_));
    piece_.clear();
  }
  out_ = 0;
}

}  // namespace weir
