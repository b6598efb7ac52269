// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// TLS over a socket that never blocks, by OpenSSL: hiredis has it only from 1.0 on, and would want the
/// socket for itself. A build without OpenSSL refuses what needs it (tls_available()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weir {

/// Whether this build can do it.
bool tls_available() noexcept;

/// What a node shows and demands. Files are PEM.
struct TlsTerms {
  std::string ca_file;           ///< empty: the system's
  std::string certificate_file;  ///< empty: the client shows none
  std::string private_key_file;  ///< of it
  /// What the server's certificate must be made out to; empty: the host's name or address.
  std::string server_name;
};

/// Files read, ready for any number of sessions. Immutable; sessions keep what they need of it.
class TlsContext {
 public:
  struct Result;
  /// Reads the files. TLS 1.2 and above; the server's chain and name are always checked.
  static Result make(const TlsTerms& terms);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  struct State;
  explicit TlsContext(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// A context, or which file is wrong and why.
struct TlsContext::Result {
  std::shared_ptr<const TlsContext> context;
  std::string error;
};

/// One connection's TLS. One thread at a time.
class TlsSession {
 public:
  enum class Progress : std::uint8_t {
    done,         ///< `bytes` have been moved (or the handshake is over)
    wants_read,   ///< the socket must become readable first
    wants_write,  ///< …writable
    closed,       ///< by the other end, in good order
    failed,       ///< see error()
  };
  struct Step {
    Progress progress = Progress::failed;
    std::size_t bytes = 0;
  };

  /// @param socket  connected, non-blocking; outlives the session
  /// @param host    that was connected to
  TlsSession(const TlsContext& context, int socket, const std::string& host);
  ~TlsSession();
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;

  Step handshake();
  Step read(std::span<char> into);
  Step write(std::string_view bytes);
  const std::string& error() const noexcept { return error_; }

 private:
  Step after(int result);

  struct State;
  std::unique_ptr<State> state_;
  std::string error_;
};

}  // namespace weir
