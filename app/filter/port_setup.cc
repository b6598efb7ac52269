// SPDX-License-Identifier: BSD-3-Clause
#include "filter/port_setup.h"

namespace weir::filter {

std::uint64_t hashed_fields(std::uint64_t offered) noexcept {
  // Ports are hashed, too, of all that has any: who asks for TCP's alone has everything else in one queue.
  return offered & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
}

}  // namespace weir::filter
