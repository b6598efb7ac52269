// SPDX-License-Identifier: BSD-3-Clause
// What a request cost in the end is told to the controller, which takes it into account when the span ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/worker_core.h"

namespace weir {
namespace {

/// No correction is larger: then sums of all that a log has room for do not wrap.
constexpr std::int64_t most_corrected = std::int64_t{1} << 50;

std::int64_t weighed(std::int64_t by, std::uint64_t weight) noexcept {
  const __int128 whole = static_cast<__int128>(by) * static_cast<__int128>(weight);
  return static_cast<std::int64_t>(std::clamp<__int128>(whole, -most_corrected, most_corrected));
}

}  // namespace

CorrectionLog& WorkerCore::correction_log() noexcept {
  return corrections_[static_cast<std::size_t>(table_ - tables_.data())];
}

bool WorkerCore::correct(const Key& key, std::int64_t by, Instant charged_in) noexcept {
  KeyBytes bytes;
  bytes.clear();
  if (key.form_ == Key::Form::text) bytes.add_text(key.value);
  const auto name = key.form_ == Key::Form::fields ? std::as_bytes(std::span(key.value)) : bytes.bytes();
  return correct({key.hash_, by, charged_in, key.rule_, name});
}

bool WorkerCore::correct(const Request& request, std::int64_t by, Instant charged_in) noexcept {
  if (!online_) return false;
  CorrectionLog& log = correction_log();
  const std::size_t end = log.end();
  // With a scratch of its own: what a burst has found out may still be needed.
  Classifier::Scratch scratch;
  plane_.classifier.match(request, scratch);
  KeyBytes bytes;
  for (const RuleIndex rule : std::span(scratch.rules).first(scratch.rule_count)) {
    bytes.clear();
    if (!plane_.terms[rule].dense) plane_.classifier.make_key(rule, request, scratch, bytes);
    const std::uint64_t key = plane_.terms[rule].dense ? rule_keys_[rule] : key_of(rule, bytes.bytes());
    if (correct({key, by, charged_in, rule, bytes.bytes()})) continue;
    log.forget_since(end);
    return false;
  }
  return true;
}

bool WorkerCore::correct(Correction correction) noexcept {
  // To the controller, which then owns both logs.
  if (!online_) return false;
  correction.by = weighed(correction.by, plane_.terms[correction.rule].weight);
  return correction.by == 0 || correction_log().add(correction);
}

}  // namespace weir
