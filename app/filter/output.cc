// SPDX-License-Identifier: BSD-3-Clause
#include "filter/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <mutex>
#include <string>

#include "weir/throttle.h"

namespace weir::filter {
namespace {

/// Held only where nothing is waited for. Both streams may be one and the same pipe: who has found room in it
/// is to find it still there.
std::mutex writing;
std::uint64_t left_out = 0;  // lines of standard error; under `writing`

/// @return true when there is room, or an error that writing will tell
bool await_room(int descriptor, Duration patience) {
  const auto nanoseconds = std::max<Duration::rep>(patience.count(), 0);
  const timespec timeout{.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000),
                         .tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000)};
  pollfd polled{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ppoll(&polled, 1, &timeout, nullptr) > 0;
}

/// Writes as much as a pipe with any room at all takes without waiting: a line is never torn.
/// @pre `writing` is held
/// @return bytes written; 0: there is no room; negative: there never will be
ssize_t put(int descriptor, std::string_view text) {
  if (!await_room(descriptor, Duration::zero())) return 0;
  const ssize_t written = write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
  return written < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : written;
}

}  // namespace

void complain(std::string_view message) {
  const std::string line = "weir-filter: " + std::string(message) + "\n";
  const std::lock_guard lock(writing);
  if (left_out > 0) {
    const std::string gap =
        "weir-filter: " + std::to_string(left_out) + " lines are missing here: nobody read them\n";
    if (put(STDERR_FILENO, gap) > 0) left_out = 0;
  }
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = put(STDERR_FILENO, rest);
    if (written <= 0) {
      ++left_out;
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void show(std::string_view text, Duration patience) {
  MonotonicTime deadline = monotonic_now() + patience;
  while (!text.empty()) {
    const MonotonicTime now = monotonic_now();
    if (!await_room(STDOUT_FILENO, deadline - now) && now >= deadline) return;
    const std::lock_guard lock(writing);
    const ssize_t written = put(STDOUT_FILENO, text);
    if (written < 0) return;
    if (written == 0) continue;
    text.remove_prefix(static_cast<std::size_t>(written));
    deadline = now + patience;
  }
}

}  // namespace weir::filter
