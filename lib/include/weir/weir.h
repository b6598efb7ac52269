// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// weir in C (C11 or newer): a thin face of weir/throttle.h, where the ideas are told.
///
///     weir_error error;
///     weir_throttle* throttle = weir_create(text, "built-in", 1, NULL, NULL, &error);
///     if (throttle == NULL || !weir_start(throttle, &error)) { … error.text says why … }
///     weir_worker* worker = weir_worker_at(throttle, 0);  // in the worker's thread
///     weir_online(worker);
///     while (running) { … weir_admit(worker, &request, weir_now()) …; weir_quiescent(worker); }
///     weir_offline(worker);
///     weir_stop(throttle, 1000000000);
///     weir_destroy(throttle);
///
/// Durations and times are nanoseconds. Texts are bytes and their number, and need no 0 at their end, but for
/// those of type `const char*` alone. Nothing is thrown: what may fail says so by its value.
///
/// Threads: a worker belongs to one thread at a time, and its functions neither block nor allocate nor make a
/// system call, but for the first weir_online(). All others may be called by any thread, unless their comment
/// says otherwise, and are not for a worker's path.
///
/// Programs linked with the archive (`pkg-config --static --libs weir`) and those linked with the library are
/// built alike, by a C compiler.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WEIR_API
#define WEIR_API __attribute__((visibility("default")))
#endif

/// One node: its rules, its workers, its controller.
typedef struct weir_throttle weir_throttle;
/// One worker's handle. Lives as long as its throttle.
typedef struct weir_worker weir_worker;

/// Why something failed: a line for each mistake, as many whole ones as find room, or whole characters of the
/// first. Ends with a 0.
typedef struct weir_error {
  char text[2048];
} weir_error;

/// In place of a time: the library's own clock. weir_admit_keys() reads it only if a decision needs it,
/// weir_admit() and weir_admit_key() each time. Not where weir_advance() is called with times of the caller's
/// own, which have nothing to do with it.
#define WEIR_NOW INT64_MIN
/// A wait that does not end.
#define WEIR_FOREVER INT64_MAX
/// No rule: nothing matched, or nothing decided.
#define WEIR_NO_RULE UINT16_MAX
/// Headers of a request that are looked at; further ones are not.
#define WEIR_MOST_HEADERS 64

typedef uint8_t weir_verdict;
enum { WEIR_ADMIT = 0, WEIR_BLOCK = 1 };

typedef uint8_t weir_action;
enum { WEIR_DROP = 0, WEIR_RESET = 1, WEIR_REPLY_429 = 2, WEIR_OBSERVE = 3 };

typedef struct weir_text {
  const char* bytes;  ///< NULL: there is none, whatever its size
  size_t size;
} weir_text;

typedef struct weir_header {
  weir_text name;  ///< compared without case
  weir_text value;
} weir_header;

typedef struct weir_address {
  uint8_t bytes[16];  ///< in network byte order; the first four where it is IPv4
  uint8_t family;     ///< 4, 6, or 0: none
} weir_address;

/// One request, as weir::Request. What is zero is not known.
typedef struct weir_request {
  weir_address source;
  weir_address destination;
  uint16_t source_port;       ///< host byte order
  uint16_t destination_port;  ///< likewise
  weir_text method;
  weir_text host;
  weir_text target;
  const weir_header* headers;  ///< NULL: there are none
  size_t header_count;
  uint32_t weight;  ///< multiplies the rules' weights; 0: 1
} weir_request;

/// The answer to one request, as weir::Decision.
typedef struct weir_decision {
  weir_verdict verdict;
  weir_action action;  ///< of the deciding rule; meaningful for WEIR_BLOCK
  uint16_t rule;       ///< the one that refused; else the first that applied; else WEIR_NO_RULE
  uint16_t observed;   ///< an observing rule that would have refused; else WEIR_NO_RULE
  uint32_t weight;
  uint64_t limit;
  uint64_t remaining;
  int64_t retry_after;  ///< for WEIR_BLOCK; WEIR_FOREVER: it never may pass
  int64_t reset_after;
} weir_decision;

/// A key made once and used for many requests, as weir::Key. Plain data, to be copied as one likes; for all
/// workers of the throttle that made it, and no other.
typedef struct weir_key {
  uint64_t opaque[4];
} weir_key;

/// Where weir_make_key_of_request() lays what the key refers to.
typedef struct weir_key_room {
  char bytes[480];
} weir_key_room;

/// A moment by both clocks: Unix time and a monotonic one.
typedef struct weir_instant {
  int64_t wall;
  int64_t monotonic;
} weir_instant;

/// Figures of one node, as weir::Figures.
typedef struct weir_figures {
  uint64_t publication_generation;
  uint64_t spans;
  uint64_t span_overruns;
  uint64_t stalled_workers;
  uint64_t keys;
  uint64_t overflowed;
  uint64_t store_syncs;
  uint64_t store_failures;
  uint64_t store_late;
  uint64_t counts_pending;
  uint64_t counts_synced;
  uint64_t counts_expired;
  int64_t store_round_trip;
  int64_t clock_offset;
  int64_t clock_uncertainty;
  bool store_up;
  char store_error[256];  ///< why the store is down, as far as it finds room; empty while it is up
} weir_figures;

/// Figures of one rule, since the start. Requests, not weights.
typedef struct weir_rule_figures {
  uint64_t offered;
  uint64_t admitted;
  uint64_t blocked;
  uint64_t blocked_keys;
} weir_rule_figures;

/// Told of changes worth a log line, as weir::ThrottleOptions::log: must neither block nor call the throttle.
typedef void weir_log(void* context, const char* line, size_t size);

/// Reads a configuration and makes a node of it.
/// @param text     the TOML document; not NULL
/// @param name     what to call it in errors; not NULL
/// @param workers  1 … 255
/// @param log      NULL: none
/// @return NULL: `error` says why
WEIR_API weir_throttle* weir_create(const char* text, const char* name, unsigned workers, weir_log* log,
                                    void* context, weir_error* error);
/// The same of a file, whose path is not NULL.
WEIR_API weir_throttle* weir_create_from_file(const char* path, unsigned workers, weir_log* log,
                                              void* context, weir_error* error);
/// Ends the controller; what is pending is lost: weir_stop() comes first. Workers must be offline, and nobody
/// may use the throttle any more. NULL is nothing.
WEIR_API void weir_destroy(weir_throttle* throttle);

/// Starts the controller's thread. One thread at a time calls it and weir_stop().
/// @return false: `error` says why
WEIR_API bool weir_start(weir_throttle* throttle, weir_error* error);
/// Ends the thread and the last span, and synchronises what is pending. Workers must be offline. Not after
/// weir_advance() with times of the caller's own: then it is weir_stop_at().
/// @param patience  the time it takes at most; WEIR_FOREVER: as long as need be
/// @return whether nothing is left pending
WEIR_API bool weir_stop(weir_throttle* throttle, int64_t patience);
/// The same at a moment by the clocks of weir_advance(): by others, counts that wait for the store would be
/// taken for much older, or newer, than they are. `patience` is time that passes.
WEIR_API bool weir_stop_at(weir_throttle* throttle, int64_t wall, int64_t monotonic, int64_t patience);
/// Instead of weir_start(): does what is due at a moment of the caller's own time, by Unix time and by a
/// monotonic clock, which the workers' decisions then go by, too. One thread.
/// @param next  when to call again, by the monotonic clock
/// @return false: there is no memory, and nothing is left but to destroy the throttle
WEIR_API bool weir_advance(weir_throttle* throttle, int64_t wall, int64_t monotonic, int64_t* next);

/// The number of rules, which are known by their position in the configuration.
WEIR_API uint16_t weir_rules(const weir_throttle* throttle);
/// A rule's name, which ends with a 0 and lives as long as the throttle. NULL: there is no such rule.
WEIR_API const char* weir_rule_name(const weir_throttle* throttle, uint16_t rule);
/// The rule of this name; WEIR_NO_RULE: there is none.
WEIR_API uint16_t weir_rule_called(const weir_throttle* throttle, const char* name);

/// A moment's view of what the node does.
/// @param rules  of each rule, room for `room`, of which as many are filled as there are rules; may be NULL
/// @return false: there is no memory for it
WEIR_API bool weir_read_figures(const weir_throttle* throttle, weir_figures* figures,
                                weir_rule_figures* rules, size_t room);

/// The handle of one worker. NULL: there is none with this index.
WEIR_API weir_worker* weir_worker_at(weir_throttle* throttle, unsigned index);
/// CLOCK_MONOTONIC. Once per burst is enough.
WEIR_API int64_t weir_now(void);
/// Begins taking part: before the first decision, after each weir_offline(), and not before weir_start(), or
/// the first weir_advance(), has returned. A worker that is offline admits everything and counts nothing.
WEIR_API void weir_online(weir_worker* worker);
/// Stops taking part: before anything that sleeps.
WEIR_API void weir_offline(weir_worker* worker);
/// No decision is in progress: once per loop.
WEIR_API void weir_quiescent(weir_worker* worker);

/// Decides on one request under all rules that apply.
/// @param now  weir_now(), or WEIR_NOW; under weir_advance() its monotonic clock
WEIR_API weir_decision weir_admit(weir_worker* worker, const weir_request* request, int64_t now);
/// Decides for a key of one rule that the caller made, as weir::Worker::admit_key().
/// @param rule    less than weir_rules(): nobody looks whether it is
/// @param weight  0: only looks, as there
WEIR_API weir_decision weir_admit_key(weir_worker* worker, uint16_t rule, const char* value, size_t size,
                                      uint32_t weight, int64_t now);

/// Makes a key for weir_admit_keys(), of a value that must outlive it, as weir::Worker::key().
/// @param rule, weight  as for weir_admit_key()
WEIR_API weir_key weir_make_key(const weir_worker* worker, uint16_t rule, const char* value, size_t size,
                                uint32_t weight);
/// Makes the key under which weir_admit() counts a request under one rule.
/// @param room  must outlive the key, and stay where it is
/// @return false: the rule does not apply to the request, and there is no key
WEIR_API bool weir_make_key_of_request(const weir_worker* worker, uint16_t rule, const weir_request* request,
                                       weir_key_room* room, weir_key* key);
/// Decides for keys, each for itself: the fastest there is.
/// @param verdicts  room for `count`
/// @param next      keys to be decided on after these, `next_count` of them; their memory is brought near
/// meanwhile. May be NULL
WEIR_API void weir_admit_keys(weir_worker* worker, const weir_key* keys, size_t count, int64_t now,
                              weir_verdict* verdicts, const weir_key* next, size_t next_count);

/// When the span began in which it is counted what the worker decides now: to be kept for weir_correct().
WEIR_API weir_instant weir_span_began(const weir_worker* worker);
/// Settles a cost that is known only afterwards, as weir::Worker::correct(). With each worker there is room
/// for 4096 in a span, of keys with values of usual lengths.
/// @param by          what the request has cost beyond its weight; below 0: less than that
/// @param charged_in  what weir_span_began() was when the request was decided on; to take back what
/// weir_correct() itself has charged: when it did
/// @return false: there have been too many in this span, or the worker is offline. Nothing has been done
WEIR_API bool weir_correct(weir_worker* worker, const weir_key* key, int64_t by, weir_instant charged_in);
/// The same for all rules that apply to a request that weir_admit() has decided on.
WEIR_API bool weir_correct_request(weir_worker* worker, const weir_request* request, int64_t by,
                                   weir_instant charged_in);

#ifdef __cplusplus
}
#endif
