// SPDX-License-Identifier: BSD-3-Clause
#include "command-line/whole_number.h"

#include <charconv>
#include <string>
#include <system_error>

namespace weir::command_line {

CLI::Validator whole_number(std::uint64_t most) {
  const auto take = [most](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > most)
      return "must be a whole number from 0 to " + std::to_string(most) + ", not '" + text + "'";
    text = std::to_string(value);  // leading zeroes would make it an octal one
    return {};
  };
  return {take, ""};
}

}  // namespace weir::command_line
