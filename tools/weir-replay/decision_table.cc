// SPDX-License-Identifier: BSD-3-Clause
#include "decision_table.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

namespace weir::replay {
namespace {

/// -1: a moment that never comes.
std::string wait_text(Duration wait) { return wait == Duration::max() ? "-1" : milliseconds_text(wait); }

}  // namespace

std::string key_text(std::string_view key) {
  std::string text;
  for (const char c : key) {
    switch (c) {
      case '\t':
        text += "\\t";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\\':
        text += "\\\\";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string DecisionTable::open(const std::string& path, std::uint32_t rule_weight) {
  if (path == "-") {
    name_ = "standard output";
    write_to(std::cout, rule_weight);
    return {};
  }
  name_ = path;
  errno = 0;
  file_.open(path, std::ios::binary | std::ios::trunc);
  if (!file_) return path + ": " + std::strerror(errno != 0 ? errno : EIO);
  write_to(file_, rule_weight);
  return {};
}

void DecisionTable::write_to(std::ostream& out, std::uint32_t rule_weight) {
  out_ = &out;
  rule_weight_ = rule_weight;
  *out_ << "time_ms\tkey\tweight\tverdict\tremaining\tretry_after_ms\treset_after_ms\n";
}

void DecisionTable::add(const CsvRequest& request, const Decision& decision) {
  const bool admitted = decision.verdict == Verdict::admit;
  *out_ << milliseconds_text(request.time.time_since_epoch()) << '\t' << key_text(request.key) << '\t'
        << std::uint64_t{request.weight} * rule_weight_ << '\t' << (admitted ? "admit" : "block") << '\t'
        << decision.remaining / std::max(rule_weight_, 1U) << '\t'
        << (admitted ? "-1" : wait_text(decision.retry_after)) << '\t' << wait_text(decision.reset_after)
        << '\n';
}

std::string DecisionTable::close() {
  errno = 0;
  out_->flush();
  if (file_.is_open()) file_.close();
  if (*out_) return {};
  return name_ + ": could not be written" +
         (errno != 0 ? std::string(": ") + std::strerror(errno) : std::string());
}

}  // namespace weir::replay
