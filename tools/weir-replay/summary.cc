// SPDX-License-Identifier: BSD-3-Clause
#include "summary.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "request_table.h"

namespace weir::replay {
namespace {

/// Columns as wide as their widest cell: the first one to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - row[i].size(), ' ');
        text += i == 0 ? row[i] + padding : "  " + padding + row[i];
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string packets(const Tally& tally) {
  if (tally.packets == 0) return "packets: none\n";
  const auto kind = [&](FrameKind which) { return number(tally.frames[static_cast<std::size_t>(which)]); };
  std::string text = "capture: from " + time_text(tally.first) + " to " + time_text(tally.last) + ", " +
                     time_text(WallTime(tally.last - tally.first)) + " s\n";
  if (tally.backward_steps != 0) {
    text += "         time steps back at " + number(tally.backward_steps) +
            " packets; they were taken at the latest time before them\n";
  }
  Table table({"packets", number(tally.packets)});
  table.add({"  tcp", kind(FrameKind::tcp)});
  table.add({"    with requests", number(tally.with_requests)});
  table.add({"    with other payload", number(tally.without_requests)});
  table.add({"    without payload", number(tally.without_payload)});
  table.add({"  fragment", kind(FrameKind::fragment)});
  table.add({"  other transport", kind(FrameKind::other_transport)});
  table.add({"  not IP", kind(FrameKind::not_ip)});
  table.add({"  malformed", kind(FrameKind::malformed)});
  table.add({"truncated by the capture", number(tally.truncated)});
  return text + table.text();
}

std::string requests(const Replay& replay) {
  const Tally& tally = replay.tally();
  Table table({"requests", number(tally.requests)});
  table.add({"  admitted", number(tally.requests - tally.blocked)});
  table.add({"  blocked", number(tally.blocked)});
  table.add({"  under no rule", number(tally.without_rule)});
  table.add({"  with cut-off headers", number(tally.incomplete)});
  table.add({"  without room for their keys", number(replay.overflowed())});
  return table.text();
}

std::string rules(const std::vector<RuleFigures>& figures) {
  Table table({"rule", "offered", "admitted", "blocked", "keys blocked now"});
  for (const RuleFigures& rule : figures) {
    table.add({rule.name, number(rule.offered), number(rule.admitted), number(rule.blocked),
               number(rule.blocked_keys)});
  }
  return table.text();
}

std::string keys(const Replay& replay, std::size_t top) {
  const Tally& tally = replay.tally();
  using Entry = std::pair<std::string, KeyTally>;
  std::vector<Entry> all(tally.keys.begin(), tally.keys.end());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return a.second.offered != b.second.offered ? a.second.offered > b.second.offered : a.first < b.first;
  });
  const std::size_t shown = std::min(top, all.size());
  Table table({"key", "offered", "admitted", "blocked", "state"});
  for (const auto& [name, key] : std::span(all).first(shown)) {
    table.add({name, number(key.offered), number(key.admitted), number(key.blocked),
               replay.is_blocked(key) ? "blocked" : "open"});
  }
  std::string text = table.text();
  if (shown < all.size()) text += "… and " + number(all.size() - shown) + " more keys\n";
  if (tally.keys_left_out != 0)
    text += "… and " + number(tally.keys_left_out) + " requests of keys beyond those told apart\n";
  return text;
}

}  // namespace

std::string summary(const Replay& replay, std::size_t top) {
  std::string text = packets(replay.tally()) + "\n" + requests(replay);
  if (const std::vector<RuleFigures> figures = replay.rules(); !figures.empty()) {
    text += "\n" + rules(figures);
    if (top != 0 && !replay.tally().keys.empty()) text += "\n" + keys(replay, top);
  }
  return text;
}

}  // namespace weir::replay
