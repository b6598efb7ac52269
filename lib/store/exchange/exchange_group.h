// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One node's side of one group of counters (a partition, an interval and an ordinal) that nodes exchange
/// instead of adding them up in the store. Pure: no I/O, no clock, no lock.
///
/// Each node has a log in the store, which it alone writes: a piece of records (records.h) for each batch,
/// numbered 0, 1, 2, … It keeps its own sums, and the sums of what it has read of the others' logs; together
/// they are the totals. So a script has only to store one piece and to show the table of the logs, and what
/// is new in them is read by a plain command, whatever the number of counters: measured, a script hashes
/// every byte that passes through it, at more than the cost of all the rest. (Where the next pieces of the
/// others can be guessed, which is the rule, that command goes with the script's, in one round trip.) A piece
/// is told to nobody before it is stored, so the totals are those of the moment it was, or later.
///
/// Exactly once, by number. The script stores the piece whose number is the log's next, takes one that is
/// there already for a repetition, and tells a node whose log lacks earlier ones (the store was wiped, or a
/// stale replica has taken over) that they are lost. The node then writes all it has counted anew: as a
/// summary, which stands for all pieces before the number it is to go on with. A piece never changes while it
/// is under way, and its number always means the same piece, so that a reader who has read up to a number
/// goes on from there, whatever has been summarised or lost and written again.
///
/// Growth is bounded: a log whose pieces have become longer than its summary is shortened to a summary of the
/// older half and the pieces after it. Who has not read so far (as a rule nobody) forgets what it knows of
/// the others, and reads all logs of the group anew. Generations number the summaries.
///
/// Ids. Clients choose names, so that an id is a keyed hash: under a seed that lies beside the logs. The
/// first to write proposes it; who comes with another is told, and takes it over. What a node had counted
/// under the other seed was wiped, and is forgotten. The batch under way keeps its log and its number: a copy
/// of it that comes late, to a store wiped once more, is still the same piece. Two names of one id would be
/// one counter: of 2^20 counters in a group two have one with a probability of 3 in 10^8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "store/exchange/counter_table.h"
#include "store/outbox.h"

namespace weir {

/// A log, as the store knows it: summaries 0 … summaries − 1 of the generation stand for the pieces before
/// `covered`; then come the pieces covered … next − 1.
struct LogState {
  std::string_view writer;  ///< the name of the log
  std::uint64_t generation = 0;
  std::uint64_t summaries = 0;
  std::uint64_t covered = 0;
  std::uint64_t next = 0;
  std::uint64_t largest = 0;  ///< bytes that none of its pieces and summaries exceeds
};

/// What goes to the store. Views are valid until the group is next changed.
struct ExchangeCall {
  std::string_view seed;
  std::string_view writer;  ///< the name of this node's log
  std::uint64_t generation = 0;
  std::uint64_t number = 0;              ///< of the piece
  std::string_view piece;                ///< empty: this only reads
  std::optional<std::uint64_t> covered;  ///< the summaries stand for what is before; nothing: there are none
  std::span<const std::string> summaries;
};

/// What is to be read of the others' logs, if anything. Views are valid until the group is next changed.
struct ExchangeQuestion {
  std::span<const std::string> fields;
  std::uint64_t turn = 0;  ///< comes back with the answer: an older one's is of no use
};

/// What the script answers.
struct ExchangeAnswer {
  enum class Status : std::uint8_t {
    lost,        ///< nothing was done: this node's log is not what it should be
    applied,     ///< now, or before
    other_seed,  ///< nothing was done: the group's seed is another
  };
  Status status = Status::lost;
  std::string_view seed;       ///< with other_seed
  std::vector<LogState> logs;  ///< with applied: all there are
};

class ExchangeGroup {
 public:
  /// Bytes that a piece costs in the store beside its own.
  static constexpr std::size_t piece_overhead = 64;
  /// A log that is shorter is not shortened.
  static constexpr std::size_t least_log = 32 * 1024;
  /// Logs of others that are read at most: those of further ones are not counted.
  static constexpr std::size_t most_logs = 16'000;
  /// Bytes and fields that one question asks for, about.
  static constexpr std::size_t most_asked_bytes = 1024 * 1024;
  static constexpr std::size_t most_asked = 1000;
  /// Fields that are asked for by guess: even if all are as large as they get, the answer has its bounds.
  static constexpr std::size_t most_guessed = 48;
  /// The most records of one summary; there are several when there is more.
  static constexpr std::size_t summary_records = 4096;

  /// @param writer   the name of its log: nobody else's, ever
  /// @param seed     to be proposed
  /// @param scatter  of the table
  ExchangeGroup(std::string writer, std::string seed, std::uint64_t scatter);

  const std::string& seed() const noexcept { return seed_; }
  /// Counters known, for this node's own sake or another's.
  std::size_t size() const noexcept { return table_.size(); }
  /// The batch under way; 0: none.
  std::uint64_t out() const noexcept { return out_; }

  /// Makes a batch the one under way, to be sent now; nothing changes where it is already.
  /// @pre out() is 0 or the batch's number
  void begin(const OutboxBatch& batch);
  /// What is to be sent: the call, with the question right behind it.
  ExchangeCall call() const noexcept;
  ExchangeQuestion question() const noexcept { return {fields_, turn_}; }
  /// The group's seed is another: the batch under way is to be sent again under it.
  void adopt(std::string_view seed);
  /// The answer to what was sent will not come, or is of no use. The batch is to be sent again.
  void cancel() noexcept { ++turn_; }

  enum class Progress : std::uint8_t {
    done,   ///< the batch is applied, and the totals are complete
    wait,   ///< for the answer to the question
    ask,    ///< there is another question, to be put alone
    again,  ///< the batch is to be sent again
  };
  /// Takes in an answer of status lost or applied to call().
  Progress absorb(const ExchangeAnswer& answer);
  /// Takes in the answer to question().
  /// @param pieces  one for each field; nothing where there is none
  /// @param room    counters that may be known at most; those of others, never asked for, go without
  Progress absorb(std::span<const std::optional<std::string_view>> pieces, std::uint64_t turn,
                  std::size_t room);

  /// What has become of the entries of the batch that is done.
  std::span<const OutboxOutcome> outcomes() const noexcept { return outcomes_; }

  /// Pieces read that were damaged, ever; what was good of them before the damage counts.
  std::uint64_t damaged() const noexcept { return damaged_; }
  /// How often everything of the others has been read anew.
  std::uint64_t rereads() const noexcept { return rereads_; }

 private:
  struct Counted {
    std::uint64_t id = 0;
    std::uint64_t delta = 0;
    bool refused = false;  // its sum would not be a number
  };

  /// A log of another, and how far it has been read: the first few summaries of a generation, or all pieces
  /// before `next`.
  struct Log {
    std::string writer;
    std::uint64_t generation = 0;
    std::uint64_t read = 0;             // summaries
    std::optional<std::uint64_t> next;  // nothing: not all summaries have been read
    // As the store's table has it. Known with the answer to the batch under way.
    LogState state;
  };
  /// Whose field has been asked for, and what it is.
  struct Asked {
    std::size_t log = 0;
    std::uint64_t number = 0;
    bool summary = false;
  };

  std::uint64_t id_of(std::string_view name) const noexcept;
  void forget_others();
  void summarise(std::size_t kept);
  bool take_over(const std::vector<LogState>& states);
  void ask_for_next();
  void ask_for_missing();
  void ask(std::size_t log, bool summary, std::uint64_t number);
  Progress go_on();
  void read_piece(std::string_view piece, std::size_t room);
  void finish();

  std::string writer_;
  std::string seed_;
  HashKey key_;
  CounterTable table_;

  // The own log. Pieces from `covered_` on are kept: a summary is what has been counted but for them.
  std::uint64_t generation_ = 0;
  std::uint64_t covered_ = 0;
  std::deque<std::string> pieces_;
  std::size_t pieces_size_ = 0;  // with overhead
  std::size_t counted_ = 0;      // counters with an own part
  std::vector<std::string> summaries_;
  bool rewriting_ = false;  // the summaries have not reached the store, as far as is known

  // The batch under way, or the last one.
  std::uint64_t out_ = 0;
  bool begun_ = false;  // and made into a piece
  std::vector<Counted> batch_;
  std::string piece_;
  std::vector<OutboxOutcome> outcomes_;

  // The others' logs, in the store's order.
  std::vector<Log> logs_;
  bool applied_ = false;  // the batch under way is, and the logs' states are known
  std::vector<std::string> fields_;
  std::vector<Asked> asked_;
  std::uint64_t turn_ = 0;
  bool waiting_ = false;  // for the answer to the question of this turn
  bool partial_ = false;  // not all counters of others are known
  std::uint64_t damaged_ = 0;
  std::uint64_t rereads_ = 0;
};

}  // namespace weir
