// SPDX-License-Identifier: BSD-3-Clause
// The C face: the public face in C++ once more, word by word. Nothing is thrown across it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weir/throttle.h"
#include "weir/weir.h"

using namespace weir;

struct weir_throttle {
  std::unique_ptr<Throttle> throttle;
  unsigned workers;
};

namespace {

static_assert(sizeof(weir_key) == sizeof(Key) && alignof(weir_key) == alignof(Key));
static_assert(std::is_trivially_copyable_v<Key>);
static_assert(sizeof(weir_key_room) == sizeof(KeyRoom));
static_assert(sizeof(weir_verdict) == sizeof(Verdict));
static_assert(WEIR_BLOCK == static_cast<int>(Verdict::block));
static_assert(WEIR_DROP == static_cast<int>(Action::drop) && WEIR_RESET == static_cast<int>(Action::reset) &&
              WEIR_REPLY_429 == static_cast<int>(Action::reply_429) &&
              WEIR_OBSERVE == static_cast<int>(Action::observe));
static_assert(WEIR_NO_RULE == no_rule && WEIR_FOREVER == forever.count());

/// How much of a text is told where not all of it finds room: whole lines, or of the first whole characters.
std::size_t whole_part(std::string_view text, std::size_t room) noexcept {
  if (text.size() <= room) return text.size();
  std::size_t end = text.rfind('\n', room);
  if (end != std::string_view::npos) return end;
  end = room;
  // Behind the first byte of a character come at most three more; what is not UTF-8 is cut all the same.
  while (end + 3 > room && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

/// As much of a text as finds room, with a 0 behind it.
template <std::size_t size>
void copy_text(std::string_view from, char (&to)[size]) noexcept {
  static_assert(size > 4);
  to[from.copy(to, whole_part(from, size - 1))] = '\0';
}

void tell(weir_error* error, std::string_view why) noexcept {
  if (error != nullptr) copy_text(why, error->text);
}

/// What `make` returns, or `failed` and why.
template <typename Made>
Made or_error(weir_error* error, Made failed, auto&& make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    tell(error, "not enough memory");
  } catch (const std::exception& thrown) {
    tell(error, thrown.what());
  }
  return failed;
}

weir_throttle* create(const ConfigResult& read, unsigned workers, weir_log* log, void* context,
                      weir_error* error) {
  if (!read) {
    std::string wrong;
    for (const ConfigError& one : read.errors) wrong += (wrong.empty() ? "" : "\n") + one.to_string();
    tell(error, wrong);
    return nullptr;
  }
  ThrottleOptions options;
  options.workers = workers;
  if (log != nullptr) options.log = [=](std::string_view line) { log(context, line.data(), line.size()); };
  ThrottleResult made = Throttle::create(read.config, options);
  if (!made) {
    tell(error, made.error);
    return nullptr;
  }
  return std::make_unique<weir_throttle>(weir_throttle{std::move(made.throttle), workers}).release();
}

Worker& of(weir_worker* worker) noexcept { return *reinterpret_cast<Worker*>(worker); }
const Worker& of(const weir_worker* worker) noexcept { return *reinterpret_cast<const Worker*>(worker); }

MonotonicTime time_of(std::int64_t now) noexcept {
  return now == WEIR_NOW ? monotonic_now() : MonotonicTime(Duration(now));
}

Instant instant_of(std::int64_t wall, std::int64_t monotonic) noexcept {
  return {WallTime(Duration(wall)), MonotonicTime(Duration(monotonic))};
}

std::string_view view(const weir_text& text) noexcept {
  return text.bytes != nullptr ? std::string_view(text.bytes, text.size) : std::string_view();
}

IpAddress address_of(const weir_address& from) noexcept {
  IpAddress address;
  if (from.family != 4 && from.family != 6) return address;
  address.family = static_cast<IpAddress::Family>(from.family);
  std::copy_n(from.bytes, from.family == 4 ? 4 : 16, address.bytes.begin());
  return address;
}

/// A request as the rooms know it. Views what is viewed by the other one.
class LaidOut {
 public:
  explicit LaidOut(const weir_request& from) noexcept {
    request_.source = address_of(from.source);
    request_.destination = address_of(from.destination);
    request_.source_port = from.source_port;
    request_.destination_port = from.destination_port;
    request_.method = view(from.method);
    request_.host = view(from.host);
    request_.target = view(from.target);
    request_.weight = from.weight;
    const std::size_t count =
        from.headers != nullptr ? std::min<std::size_t>(from.header_count, WEIR_MOST_HEADERS) : 0;
    auto* const headers = reinterpret_cast<Header*>(room_);
    for (std::size_t i = 0; i < count; ++i)
      ::new (headers + i) Header{view(from.headers[i].name), view(from.headers[i].value)};
    request_.headers = std::span<const Header>(headers, count);
  }
  LaidOut(const LaidOut&) = delete;
  LaidOut& operator=(const LaidOut&) = delete;
  operator const Request&() const noexcept { return request_; }

 private:
  Request request_;
  // Not initialised: a request has few of them.
  alignas(Header) std::byte room_[WEIR_MOST_HEADERS * sizeof(Header)];
};

weir_decision told(const Decision& decision) noexcept {
  return {.verdict = static_cast<weir_verdict>(decision.verdict),
          .action = static_cast<weir_action>(decision.action),
          .rule = decision.rule,
          .observed = decision.observed,
          .weight = decision.weight,
          .limit = decision.limit,
          .remaining = decision.remaining,
          .retry_after = decision.retry_after.count(),
          .reset_after = decision.reset_after.count()};
}

std::span<const Key> keys_of(const weir_key* keys, std::size_t count) noexcept {
  return {reinterpret_cast<const Key*>(keys), count};
}

weir_key opaque(const Key& key) noexcept {
  weir_key made;
  std::memcpy(&made, static_cast<const void*>(&key), sizeof made);
  return made;
}

}  // namespace

weir_throttle* weir_create(const char* text, const char* name, unsigned workers, weir_log* log, void* context,
                           weir_error* error) {
  return or_error<weir_throttle*>(
      error, nullptr, [&] { return create(parse_config(text, name), workers, log, context, error); });
}

weir_throttle* weir_create_from_file(const char* path, unsigned workers, weir_log* log, void* context,
                                     weir_error* error) {
  return or_error<weir_throttle*>(error, nullptr,
                                  [&] { return create(load_config(path), workers, log, context, error); });
}

void weir_destroy(weir_throttle* throttle) { delete throttle; }

bool weir_start(weir_throttle* throttle, weir_error* error) {
  return or_error(error, false, [&] {
    throttle->throttle->start();
    return true;
  });
}

bool weir_stop(weir_throttle* throttle, int64_t patience) {
  return or_error(nullptr, false, [&] { return throttle->throttle->stop(Duration(patience)); });
}

bool weir_stop_at(weir_throttle* throttle, int64_t wall, int64_t monotonic, int64_t patience) {
  return or_error(nullptr, false,
                  [&] { return throttle->throttle->stop(instant_of(wall, monotonic), Duration(patience)); });
}

bool weir_advance(weir_throttle* throttle, int64_t wall, int64_t monotonic, int64_t* next) {
  return or_error(nullptr, false, [&] {
    const Instant due = throttle->throttle->advance(instant_of(wall, monotonic));
    if (next != nullptr) *next = due.monotonic.time_since_epoch().count();
    return true;
  });
}

uint16_t weir_rules(const weir_throttle* throttle) {
  return static_cast<uint16_t>(throttle->throttle->config().rules.size());
}

const char* weir_rule_name(const weir_throttle* throttle, uint16_t rule) {
  const auto& rules = throttle->throttle->config().rules;
  return rule < rules.size() ? rules[rule].name.c_str() : nullptr;
}

uint16_t weir_rule_called(const weir_throttle* throttle, const char* name) {
  const auto& rules = throttle->throttle->config().rules;
  const auto found = std::ranges::find(rules, std::string_view(name), &Rule::name);
  return found == rules.end() ? no_rule : static_cast<RuleIndex>(found - rules.begin());
}

bool weir_read_figures(const weir_throttle* throttle, weir_figures* figures, weir_rule_figures* rules,
                       size_t room) {
  return or_error(nullptr, false, [&] {
    const Figures read = throttle->throttle->figures();
    *figures = {.publication_generation = read.publication_generation,
                .spans = read.spans,
                .span_overruns = read.span_overruns,
                .stalled_workers = read.stalled_workers,
                .keys = read.keys,
                .overflowed = read.overflowed,
                .store_syncs = read.store_syncs,
                .store_failures = read.store_failures,
                .store_late = read.store_late,
                .counts_pending = read.counts_pending,
                .counts_synced = read.counts_synced,
                .counts_expired = read.counts_expired,
                .store_round_trip = read.store_round_trip.count(),
                .clock_offset = read.clock_offset.count(),
                .clock_uncertainty = read.clock_uncertainty.count(),
                .store_up = read.store_up,
                .store_error = {}};
    copy_text(read.store_error, figures->store_error);
    for (std::size_t i = 0; rules != nullptr && i < std::min(room, read.rules.size()); ++i)
      rules[i] = {.offered = read.rules[i].offered,
                  .admitted = read.rules[i].admitted,
                  .blocked = read.rules[i].blocked,
                  .blocked_keys = read.rules[i].blocked_keys};
    return true;
  });
}

weir_worker* weir_worker_at(weir_throttle* throttle, unsigned index) {
  if (index >= throttle->workers) return nullptr;
  return reinterpret_cast<weir_worker*>(&throttle->throttle->worker(index));
}

int64_t weir_now(void) { return monotonic_now().time_since_epoch().count(); }
void weir_online(weir_worker* worker) { of(worker).online(); }
void weir_offline(weir_worker* worker) { of(worker).offline(); }
void weir_quiescent(weir_worker* worker) { of(worker).quiescent(); }

weir_decision weir_admit(weir_worker* worker, const weir_request* request, int64_t now) {
  return told(of(worker).admit(LaidOut(*request), time_of(now)));
}

weir_decision weir_admit_key(weir_worker* worker, uint16_t rule, const char* value, size_t size,
                             uint32_t weight, int64_t now) {
  return told(of(worker).admit_key(rule, {value, size}, weight, time_of(now)));
}

weir_key weir_make_key(const weir_worker* worker, uint16_t rule, const char* value, size_t size,
                       uint32_t weight) {
  Key key = of(worker).key(rule, {value, size});
  key.weight = weight;
  return opaque(key);
}

bool weir_make_key_of_request(const weir_worker* worker, uint16_t rule, const weir_request* request,
                              weir_key_room* room, weir_key* key) {
  const Key made = of(worker).key(rule, LaidOut(*request), *reinterpret_cast<KeyRoom*>(room->bytes));
  if (made.rule() == no_rule) return false;
  *key = opaque(made);
  return true;
}

void weir_admit_keys(weir_worker* worker, const weir_key* keys, size_t count, int64_t now,
                     weir_verdict* verdicts, const weir_key* next, size_t next_count) {
  const std::span<Verdict> to(reinterpret_cast<Verdict*>(verdicts), count);
  if (now == WEIR_NOW)
    of(worker).admit_keys(keys_of(keys, count), to, keys_of(next, next_count));
  else
    of(worker).admit_keys(keys_of(keys, count), time_of(now), to, keys_of(next, next_count));
}

weir_instant weir_span_began(const weir_worker* worker) {
  const Instant began = of(worker).span_began();
  return {began.wall.time_since_epoch().count(), began.monotonic.time_since_epoch().count()};
}

bool weir_correct(weir_worker* worker, const weir_key* key, int64_t by, weir_instant charged_in) {
  return of(worker).correct(keys_of(key, 1).front(), by, instant_of(charged_in.wall, charged_in.monotonic));
}

bool weir_correct_request(weir_worker* worker, const weir_request* request, int64_t by,
                          weir_instant charged_in) {
  return of(worker).correct(LaidOut(*request), by, instant_of(charged_in.wall, charged_in.monotonic));
}
