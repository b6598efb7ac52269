// SPDX-License-Identifier: BSD-3-Clause
#include "filter/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "weir/throttle.h"

namespace weir::filter {
namespace {

/// One of the two streams, written to only as far as that takes no waiting. (Of files it is their disk that
/// may wait, as ever.)
class Stream {
 public:
  explicit Stream(int descriptor) : descriptor_(descriptor) {
    struct stat about {};
    if (fstat(descriptor, &about) != 0) return;
    is_socket_ = S_ISSOCK(about.st_mode);
    if (!S_ISFIFO(about.st_mode) && isatty(descriptor) == 0) return;
    // Whoever writes more to a terminal than it has room for waits, whatever poll() says. That nobody is to
    // wait would hold, on the descriptor as it is, for all that share it, the shell included.
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int own = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) descriptor_ = own;
  }

  /// @return false: there was no room for so long. True: there is some, or an error that writing will tell
  bool await_room(Duration patience) const {
    const auto nanoseconds = std::max<Duration::rep>(patience.count(), 0);
    const timespec timeout{.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000),
                           .tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000)};
    pollfd polled{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    return ppoll(&polled, 1, &timeout, nullptr) > 0;
  }
  /// Writes what there is room for, a pipe's line as a whole or not at all.
  /// @return bytes written; 0: there is no room; negative: there never will be
  ssize_t put(std::string_view text) const {
    if (!await_room(Duration::zero())) return 0;
    const std::size_t size = std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t written = is_socket_ ? send(descriptor_, text.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : write(descriptor_, text.data(), size);
    return written < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : written;
  }

 private:
  int descriptor_;
  bool is_socket_ = false;
};

/// Held only where nothing is waited for. Both streams may be one and the same.
std::mutex writing;
std::uint64_t left_out = 0;  // lines of standard error; under `writing`

}  // namespace

void open_standard_descriptors() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // The lowest one that is free is taken, and all below it are not.
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);
}

void complain(std::string_view message) {
  static const Stream errors(STDERR_FILENO);
  const std::string line = "weir-filter: " + std::string(message) + "\n";
  const std::lock_guard lock(writing);
  if (left_out > 0) {
    const std::string gap = "weir-filter: " + std::to_string(left_out) +
                            (left_out == 1 ? " line is" : " lines are") + " missing here: nobody read them\n";
    if (errors.put(gap) > 0) left_out = 0;
  }
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = errors.put(rest);
    if (written <= 0) {
      ++left_out;
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void show(std::string_view text, Duration patience) {
  // How soon to look again where there is some room, but not for what comes next.
  constexpr Duration between_looks = std::chrono::milliseconds{1};
  static const Stream output(STDOUT_FILENO);
  MonotonicTime deadline = monotonic_now() + patience;
  while (!text.empty()) {
    output.await_room(deadline - monotonic_now());
    ssize_t written = 0;
    {
      const std::lock_guard lock(writing);
      written = output.put(text);
    }
    const MonotonicTime now = monotonic_now();
    if (written < 0 || (written == 0 && now >= deadline)) return;
    if (written == 0) {
      std::this_thread::sleep_for(between_looks);
      continue;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
    deadline = now + patience;
  }
}

}  // namespace weir::filter
