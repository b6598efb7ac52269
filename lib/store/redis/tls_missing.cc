// SPDX-License-Identifier: BSD-3-Clause
// In the place of tls.cc where there is no OpenSSL.
#include <utility>

#include "store/redis/tls.h"

namespace weir {

struct TlsContext::State {};
struct TlsSession::State {};

bool tls_available() noexcept { return false; }

TlsContext::TlsContext(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;
TlsContext::Result TlsContext::make(const TlsTerms&) {
  return {nullptr, "this build of weir has no TLS: it was made without OpenSSL"};
}

// Without a context there are no sessions.
TlsSession::TlsSession(const TlsContext&, int, const std::string&) {}
TlsSession::~TlsSession() = default;
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::Step TlsSession::handshake() { return {}; }
TlsSession::Step TlsSession::read(std::span<char>) { return {}; }
TlsSession::Step TlsSession::write(std::string_view) { return {}; }

}  // namespace weir
