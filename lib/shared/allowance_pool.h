// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What this node may still admit of each key in one window, shared by its workers. A window is an interval,
/// or one span of a sliding window, or the time a bucket takes to fill.
///
/// The hard property: one node never admits more than the limit of one key in one window, over all its
/// workers, also where the limit is smaller than their number. So workers draw what they admit from one cell
/// per key: the one shared write of the data plane. It is rare by construction: a draw takes a chunk, and
/// chunks shrink with what remains.
///
/// Cells lie in the order in which they are taken, so that memory follows the keys that draw (most never need
/// more than a grant); which is whose an index says, of one word for each key: a part of the key's hash, and
/// the number of its cell. Words are only ever added while an interval runs, in a fixed probe order, each by
/// one compare-exchange that brings key and number at once: so two workers that meet a new key in the same
/// moment agree on its cell without a lock, and nobody waits for a number. Each worker has some cells at hand
/// to give; who comes too late keeps his for the next key. When a key's probe is full of others, or there is
/// no cell left, it draws from a cell of the sketch that it may share with further light keys: it is refused
/// early rather than never. (Where cells mean different things, a section of the sketch is for those that
/// mean the same.) That, too, the index says: once it has drawn there it never gets a cell of its own.
///
/// The controller clears a whole pool when its interval is over and all workers have passed a grace period.
/// A worker may have stalled for so long that its pool is cleared under it. It draws nothing in the end, but
/// must not disturb those who are in the pool by now: so free words, and cells at hand, name the turn in
/// which they may be used.
///
/// Two keys that would lie near each other and share 38 bits of their hash share a cell: among a million keys
/// there is one such pair in forty thousand runs, and nobody who does not know the hash's key can make one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "shared/filling_array.h"

namespace weir {

/// One key's cell. Written by all workers (compare-exchange) and, for credit handed back, by the controller.
/// A new one is zero bytes.
struct alignas(32) AllowanceCell {
  /// The hash of the key that owns it, for who holds a cell from before and asks whether it still is the
  /// key's. Relaxed: written once, by whoever gave the cell away, and after that: 0 tells nothing. (If he
  /// stalls in between, until the cell is another key's in another turn, it tells of his: then what the other
  /// one gives back is not given to it before its window ends.)
  std::atomic<std::uint64_t> key{0};
  /// Weight drawn in this window; for a bucket its level, see shared/bucket_cell.h, and shared/log_cell.h.
  /// All orders relaxed: the number itself is all there is to agree on. What a worker had granted and did not
  /// need comes back here though it was not drawn: then the difference may be below 0, in two's complement.
  std::atomic<std::uint64_t> drawn{0};
  /// First refusal for want of allowance that still holds, in nanoseconds of monotonic time. Relaxed: an
  /// early hint; the block itself comes through the publication.
  std::atomic<std::int64_t> refused_at{no_refusal};

  /// Sliding logs only: a LogName, see shared/log_cell.h; 0: nothing is known yet.
  std::atomic<std::uint32_t> log{0};

  /// For how many more windows the key has a cell though it uses none; 0: it took this one itself. The
  /// controller's alone, see WindowPools::reserve_for_known().
  std::uint32_t reserved_for = 0;

  /// So new cells need not be written. (Of a refusal in the first nanosecond of all time there is no hint.)
  static constexpr std::int64_t no_refusal = 0;
  /// No chunk is larger: workers keep what they have drawn, for a request that is smaller and beyond it, in
  /// 31 bits, and what is left of a grant with it.
  static constexpr std::uint64_t usual_chunk = (std::uint64_t{1} << 30) - (std::uint64_t{1} << 12);

  /// Takes `need`, and as much more as makes a chunk, if the allowance still holds it. Any worker.
  /// @param chunk_divisor  workers, at least 1: what remains is divided so that no one strands much
  /// @param largest_chunk  beyond it only the need is taken; 0: never more than that
  /// @return what was taken, at least `need`; 0: not enough left
  std::uint64_t draw(std::uint64_t need, std::uint64_t allowance, unsigned chunk_divisor,
                     std::uint64_t largest_chunk = usual_chunk) noexcept;

  /// Of an allowance, what has not been drawn. Any thread.
  std::uint64_t left_of(std::uint64_t allowance) const noexcept {
    const auto already = static_cast<std::int64_t>(drawn.load(std::memory_order_relaxed));
    return left(allowance, already);
  }

  /// Takes so much whether or not it is there: of what is owed beyond an allowance nothing is left to be
  /// drawn.
  void charge(std::uint64_t weight) noexcept;

  /// Puts back what was drawn and not used.
  void give_back(std::uint64_t unused) noexcept {
    // Relaxed: see drawn. Only what was drawn or granted comes back, and to the window it came from.
    drawn.fetch_sub(unused, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t left(std::uint64_t allowance, std::int64_t already) noexcept {
    if (already < 0) return allowance + static_cast<std::uint64_t>(-already);
    return allowance - std::min(allowance, static_cast<std::uint64_t>(already));
  }
};
static_assert(sizeof(AllowanceCell) == 32);

class AllowancePool {
 public:
  /// Reserves addresses for all there will ever be.
  /// @param keys     cells are made for half as many again, plus the sketch
  /// @param workers  numbered from 0
  /// @param sections  of the sketch, at least 1: who shares cells there shares them with others of his
  /// section
  AllowancePool(std::uint32_t keys, unsigned workers, unsigned sections = 1);

  /// What a worker draws a key from.
  struct Place {
    AllowanceCell* cell;
    bool own;  ///< false: a cell of the sketch, shared with other keys
  };

  /// Who claims, where it is no worker.
  static constexpr unsigned controller = 0xffffffff;

  /// The key's cell, claimed if it has none. Any worker, any time. Bounded: one probe of probe_length words.
  /// @param by  the caller's number: no two claim at once under the same one
  /// @param section  of the sketch: for a key always the same one
  Place claim(std::uint64_t key, unsigned by, unsigned section = 0) noexcept {
    AllowanceCell* const cell = at_first_look(key);
    return cell != nullptr ? Place{cell, true} : claim_from(home(key), key, by, section);
  }
  /// The key's own cell where the first of its words says which, as nearly always; else nullptr. Claims none.
  AllowanceCell* at_first_look(std::uint64_t key) noexcept {
    const Word number = number_if_of(index_[home(key)].load(std::memory_order_relaxed), key);
    return names_cell(number) ? &cells_[number - 1] : nullptr;
  }
  /// The key's own cell, or nullptr.
  AllowanceCell* find(std::uint64_t key) noexcept;
  /// The cell that the key shares where it has none of its own.
  AllowanceCell* shared_one(std::uint64_t key, unsigned section = 0) noexcept {
    return &shared_cell(key, section);
  }
  /// What a worker that claimed the key now would draw it from: its own cell, or one that it shares; nullptr:
  /// a new one. Claims none.
  /// @param by, section  as for claim()
  const AllowanceCell* foresee(std::uint64_t key, unsigned by, unsigned section = 0) noexcept;
  /// From here a key's own cell is as many cells away as its number says, which is never 0: for who keeps it
  /// in 32 bits. Always the same.
  AllowanceCell* cells() noexcept { return cells_.data() - 1; }
  /// Whether a cell that the key was drawn from is the key's own, here. Touches little but the cell.
  bool is_own_cell(AllowanceCell* cell, std::uint64_t key) noexcept {
    if (!cells_.holds(cell)) return false;
    const std::uint64_t owner = cell->key.load(std::memory_order_relaxed);
    return owner != 0 ? owner == key : find(key) == cell;
  }
  /// Before the key's cell says that it has been refused. Any worker.
  void note_refusal(std::uint64_t key) noexcept {
    // Relaxed, as the mark in the cell: who sees neither admits for a moment longer.
    std::atomic<std::uint64_t>& word = refusals_[refusal_word(key)];
    if ((word.load(std::memory_order_relaxed) & refusal_bit(key)) == 0)
      word.fetch_or(refusal_bit(key), std::memory_order_relaxed);
  }
  /// Whether its cell may say so: false tells it without a look for the cell, as of nearly all keys. Any
  /// thread.
  bool may_be_refused(std::uint64_t key) const noexcept {
    return (refusals_[refusal_word(key)].load(std::memory_order_relaxed) & refusal_bit(key)) != 0;
  }
  /// Calls visit(cell) for every cell that a worker may have used. The controller, after a grace period.
  template <typename Visitor>
  void for_each_cell(Visitor&& visit) noexcept {
    for (std::size_t i = 0, used = this->used(); i < used; ++i) visit(cells_[i]);
    for (std::size_t i = 0; i < sketch_.size(); ++i) visit(sketch_[i]);
  }
  /// Calls visit(key, cell) for every key that has a cell of its own, in the order in which these were taken;
  /// and ahead(key) some time before. The controller: keys that come meanwhile may be left out.
  template <typename Visitor, typename Ahead>
  void for_each_key(Visitor&& visit, Ahead&& ahead) noexcept {
    const auto key_of = [&](std::size_t i) { return cells_[i].key.load(std::memory_order_relaxed); };
    for (std::size_t i = 0, used = this->used(); i < used; ++i) {
      if (i + visited_ahead < used) ahead(key_of(i + visited_ahead));
      if (const std::uint64_t key = key_of(i); key != 0) visit(key, cells_[i]);
    }
  }
  /// Whether the controller may claim one more cell for a key that has not come yet: there is memory for it,
  /// and enough are left for new keys.
  bool may_reserve() const noexcept {
    const Word taken = taken_.load(std::memory_order_relaxed);
    const AtHand& mine = at_hand_[controller + 1U];
    if (mine.next < mine.end && mine.turn == taken - number_of(taken)) return true;
    return number_of(taken) + at_hand <=
           std::min<std::size_t>(std::size_t{keys_} + keys_ / 4, cells_.usable());
  }
  /// The key's word of the index, which says where its cell is.
  void prefetch(std::uint64_t key) const noexcept { prefetch_to_write(&index_[home(key)]); }
  /// The same where the key may not need it in the end: who has it keeps it.
  void prefetch_to_look(std::uint64_t key) const noexcept { prefetch_to_read(&index_[home(key)]); }
  /// The cell, once its word has come.
  void prefetch_cell(std::uint64_t key) const noexcept {
    if (const AllowanceCell* cell = at_first_looks(key); cell != nullptr) prefetch_to_write(cell);
  }
  void prefetch_cell_to_look(std::uint64_t key) const noexcept {
    if (const AllowanceCell* cell = at_first_looks(key); cell != nullptr) prefetch_to_read(cell);
  }

  /// Whether so many cells are taken that keys may soon find none. Any thread.
  bool crowded() const noexcept { return used() > keys_ / 4 * 3; }
  /// Cells that have been taken, by keys or by workers to give to keys. Any thread.
  std::uint32_t used() const noexcept { return number_of(taken_.load(std::memory_order_relaxed)); }

  /// Has memory provided for the index and the first keys. The controller, before any worker claims.
  void begin() noexcept;
  /// Has memory provided for the keys to come: twice as many as have come since the last time, and room for
  /// `expected` in all. The controller, any time.
  void provide(std::uint32_t expected) noexcept;
  /// Empties the pool. The controller alone, after a grace period.
  void clear() noexcept;

  /// What has been provided so far; until begin(): what may be.
  std::size_t memory() const noexcept {
    return index_.bytes() + cells_.memory() + sketch_.bytes() + refusals_.bytes();
  }

 private:
  // A part of the key's hash (for a free word: of the turn), and the number of its cell, plus 1.
  using Word = std::uint64_t;
  static constexpr unsigned number_bits = 26;
  static constexpr Word free = 0;
  static constexpr Word shared = (Word{1} << number_bits) - 1;  // none: it draws from the sketch
  static Word number_of(Word word) noexcept { return word & shared; }
  static Word but_for_number(std::uint64_t key_or_turn) noexcept { return key_or_turn << number_bits; }
  /// The first one of the turn after that of `taken`: of a free word, and where no cell is used.
  static Word next_turn(Word taken) noexcept { return taken - number_of(taken) + but_for_number(1); }
  /// The word's number, if it is the key's. Else what is no number, or `free`.
  static Word number_if_of(Word word, std::uint64_t key) noexcept { return word ^ but_for_number(key); }
  static bool names_cell(Word number) noexcept { return number - 1 < shared - 1; }

  /// Cells that one worker has at hand. Its own cache line: it alone reads and writes it.
  struct alignas(64) AtHand {
    Word turn = 0;
    std::uint32_t next = 0;
    std::uint32_t end = 0;
  };
  // So many at once: workers that meet nothing but new keys do not wait for each other's counting.
  static constexpr std::uint32_t at_hand = 64;

  // Four cache lines at worst, one as a rule. Of as many keys as the pool is for, one in 40,000 finds no
  // word.
  static constexpr std::size_t probe_length = 24;
  static constexpr std::size_t near_words = 2;
  static constexpr std::size_t always_ahead = 4096;
  static constexpr std::size_t visited_ahead = 16;
  /// Hashes are as good at the top as at the bottom, so any number of words will do.
  std::size_t home(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(key) * homes_ >> 64);
  }
  /// The key's own cell where one of the first of its words says which: the very first does so of three keys
  /// in four, where there are as many as the pool is for.
  const AllowanceCell* at_first_looks(std::uint64_t key) const noexcept {
    const std::size_t first = home(key);
    for (std::size_t i = first; i < first + near_words; ++i) {
      const Word found = index_[i].load(std::memory_order_relaxed);
      if (const Word number = number_if_of(found, key); names_cell(number)) return &cells_[number - 1];
      if (number_of(found) == free) break;
    }
    return nullptr;
  }
  std::size_t refusal_word(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(key) * refusals_.size() >> 64);
  }
  static std::uint64_t refusal_bit(std::uint64_t key) noexcept { return std::uint64_t{1} << key % 64; }
  AllowanceCell& shared_cell(std::uint64_t key, unsigned section) noexcept {
    return sketch_[section * section_size_ + (static_cast<std::uint32_t>(key) * section_size_ >> 32)];
  }
  Place claim_from(std::size_t first, std::uint64_t key, unsigned by, unsigned section) noexcept;
  Word enter(std::atomic<Word>& word, Word found, std::uint64_t key, AtHand& mine) noexcept;
  bool take_some(AtHand& mine) noexcept;

  std::size_t homes_;
  std::uint32_t keys_;
  std::size_t section_size_;  // in cells of the sketch
  // Relaxed throughout: a word tells all there is to agree on, and the cell that it names has been clean
  // since before anybody heard of the pool. (For who is in a pool that is cleared under him see clear().)
  HugeArray<std::atomic<Word>> index_;  // a few more than homes, for those that begin near the end
  FillingArray<AllowanceCell> cells_;
  HugeArray<AllowanceCell> sketch_;
  HugeArray<std::atomic<std::uint64_t>> refusals_;  // a bit for each key: may be set for another one
  std::vector<AtHand> at_hand_;                     // of the controller, and of each worker
  // The turn, and how many cells are used. Apart from what every claim reads: workers write it, each once for
  // many keys.
  alignas(64) std::atomic<Word> taken_{0};
  std::uint32_t used_before_ = 0;  // at the last provide()
  std::uint32_t most_used_ = 0;    // in any turn that is over
};

}  // namespace weir
