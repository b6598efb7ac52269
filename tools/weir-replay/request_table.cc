// SPDX-License-Identifier: BSD-3-Clause
#include "request_table.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weir::replay {

std::string time_text(WallTime time) {
  const std::int64_t count = time.time_since_epoch().count();
  std::string fraction = std::to_string(count % 1'000'000'000);
  fraction.insert(0, 9 - fraction.size(), '0');
  return std::to_string(count / 1'000'000'000) + '.' + fraction;
}

std::string field_text(std::string_view value) {
  if (value.empty()) return "-";
  if (value == "-") return "%2D";
  std::string text;
  for (const char c : value) {
    if (c >= 0x20 && c <= 0x7e) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += '%';
      text += "0123456789ABCDEF"[byte >> 4];
      text += "0123456789ABCDEF"[byte & 15];
    }
  }
  return text;
}

std::string RequestTable::open(const std::string& path) {
  path_ = path;
  out_.open(path, std::ios::binary | std::ios::trunc);
  if (!out_) return path + ": " + std::strerror(errno);
  out_ << "time\tsrc\tsport\tdst\tdport\tprotocol\tmethod\thost\ttarget\trule\tkey\tweight\tverdict\n";
  return {};
}

void RequestTable::add(const Outcome& outcome) {
  const Request& request = outcome.request;
  // Names of keys are encoded already; encoded again, "-" for an absent value would not read as in the
  // summary.
  const std::string_view key = outcome.key.empty() ? std::string_view("-") : outcome.key;
  out_ << time_text(outcome.time) << '\t' << request.source.to_string() << '\t' << request.source_port << '\t'
       << request.destination.to_string() << '\t' << request.destination_port << '\t' << request.protocol
       << '\t' << field_text(request.method) << '\t' << field_text(request.host) << '\t'
       << field_text(request.target) << '\t' << field_text(outcome.rule) << '\t' << key << '\t'
       << outcome.weight << '\t' << (outcome.verdict == Verdict::admit ? "admit" : "block") << '\n';
}

std::string RequestTable::close() {
  errno = 0;
  out_.close();
  if (out_) return {};
  return path_ + ": could not be written" +
         (errno != 0 ? std::string(": ") + std::strerror(errno) : std::string());
}

}  // namespace weir::replay
