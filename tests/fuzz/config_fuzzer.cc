// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a configuration.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "weir/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ConfigResult read = parse_config(text, "weir.toml");
  // What a file may say a program may, too.
  if (read) require(check_config(read.config).empty());
  const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  for (const ConfigError& error : read.errors) {
    require(error.file == "weir.toml" && !error.message.empty());
    require(error.line <= lines && (error.line == 0) == (error.column == 0));
  }
  return 0;
}
