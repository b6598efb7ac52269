// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a key's, and keys of any values.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/key_bytes.h"
#include "fuzz/require.h"

namespace {

using namespace weir;

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

IpAddress consume_address(FuzzedDataProvider& input) {
  IpAddress address;
  constexpr IpAddress::Family families[] = {IpAddress::Family::none, IpAddress::Family::v4,
                                            IpAddress::Family::v6};
  address.family = input.PickValueInArray(families);
  const auto bytes = input.ConsumeBytes<std::uint8_t>(address.family == IpAddress::Family::v4 ? 4 : 16);
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  return address;
}

void check_any_key(FuzzedDataProvider& input) {
  KeyBytes key;
  for (int field = 0; field < 10 && input.remaining_bytes() != 0; ++field) {
    switch (input.ConsumeIntegralInRange(0, 4)) {
      case 0:
        key.add_absent();
        break;
      case 1:
        key.add_text(input.ConsumeRandomLengthString(700));
        break;
      case 2:
        key.add_text_lower(input.ConsumeRandomLengthString(700));
        break;
      case 3:
        key.add_prefix(consume_address(input), input.ConsumeIntegral<std::uint8_t>(),
                       input.ConsumeIntegral<std::uint8_t>());
        break;
      default:
        key.add_number(input.ConsumeIntegral<std::uint16_t>());
    }
  }
  require(key.bytes().size() <= KeyBytes::capacity);
  const std::string name = key_name("r", key.bytes());
  require(is_printable(name) && name.find("%?") == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  require(is_printable(key_name("r", std::as_bytes(std::span(data, size)))));
  FuzzedDataProvider input(data, size);
  check_any_key(input);
  return 0;
}
