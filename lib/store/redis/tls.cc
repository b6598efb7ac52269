// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

namespace weir {
namespace {

constexpr std::size_t max_record = 16 * 1024;

/// The oldest error of OpenSSL's queue, in words; the rest is dropped.
std::string openssl_message() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  std::array<char, 120> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

// OpenSSL's own socket BIO raises SIGPIPE in whoever writes to a connection that is gone.

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int bio_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(socket_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && is_for_later(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = recv(socket_of(bio), bytes, static_cast<std::size_t>(size), 0);
  if (received < 0 && is_for_later(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir socket");
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_write(method, bio_write);
  BIO_meth_set_read(method, bio_read);
  BIO_meth_set_ctrl(method, bio_control);
  return method;
}

BIO* make_bio(int socket) {
  static BIO_METHOD* const method = make_method();  // lives as long as the process, as OpenSSL's own do
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

struct TlsContext::State {
  struct Free {
    void operator()(SSL_CTX* owned) const noexcept { SSL_CTX_free(owned); }
  };
  std::unique_ptr<SSL_CTX, Free> context;
  std::string server_name;
};

struct TlsSession::State {
  struct Free {
    void operator()(SSL* owned) const noexcept { SSL_free(owned); }
  };
  std::unique_ptr<SSL, Free> session;
  std::string name;  // that the certificate must be made out to
};

bool tls_available() noexcept { return true; }

TlsContext::TlsContext(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;

TlsContext::Result TlsContext::make(const TlsTerms& terms) {
  ERR_clear_error();
  auto state = std::make_unique<State>();
  state->server_name = terms.server_name;
  state->context.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* context = state->context.get();
  if (context == nullptr) return {nullptr, "TLS cannot be set up: " + openssl_message()};
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  // A part of what was given may have been written; the rest may then lie elsewhere in memory.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A key that is locked with a passphrase is refused: nobody is there to be asked for it.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  const int trusted = terms.ca_file.empty()
                          ? SSL_CTX_set_default_verify_paths(context)
                          : SSL_CTX_load_verify_locations(context, terms.ca_file.c_str(), nullptr);
  if (trusted != 1)
    return {nullptr,
            "ca_file: cannot read certificates from \"" + terms.ca_file + "\": " + openssl_message()};
  if (!terms.certificate_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, terms.certificate_file.c_str()) != 1)
      return {nullptr, "certificate_file: cannot read a certificate from \"" + terms.certificate_file +
                           "\": " + openssl_message()};
    if (SSL_CTX_use_PrivateKey_file(context, terms.private_key_file.c_str(), SSL_FILETYPE_PEM) != 1)
      return {nullptr, "private_key_file: cannot use \"" + terms.private_key_file + "\" with \"" +
                           terms.certificate_file + "\": " + openssl_message()};
  }
  return {std::shared_ptr<const TlsContext>(new TlsContext(std::move(state))), {}};
}

TlsSession::TlsSession(const TlsContext& context, int socket, const std::string& host)
    : state_(std::make_unique<State>()) {
  ERR_clear_error();
  state_->session.reset(SSL_new(context.state_->context.get()));
  SSL* session = state_->session.get();
  if (session == nullptr) throw std::bad_alloc();
  BIO* bio = make_bio(socket);
  SSL_set_bio(session, bio, bio);
  const std::string& name = state_->name =
      context.state_->server_name.empty() ? host : context.state_->server_name;
  // Without a name none would be checked.
  if (is_address(name)) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), name.c_str()) != 1)
      error_ = "TLS: no certificate can be made out to " + name;
  } else {
    SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(session, name.c_str()) != 1 || SSL_set_tlsext_host_name(session, name.c_str()) != 1)
      error_ = "TLS: no certificate can be made out to " + name;
  }
  SSL_set_connect_state(session);
}

TlsSession::~TlsSession() = default;
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;

TlsSession::Step TlsSession::after(int result) {
  if (result > 0) return {Progress::done, static_cast<std::size_t>(result)};
  SSL* session = state_->session.get();
  const int number = errno;
  switch (SSL_get_error(session, result)) {
    case SSL_ERROR_WANT_READ:
      return {Progress::wants_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {Progress::wants_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {Progress::closed, 0};
    case SSL_ERROR_SYSCALL:
      if (number == 0) return {Progress::closed, 0};
      error_ = std::generic_category().message(number);
      break;
    default:
      // Why a certificate was not believed says more than that it was not.
      if (const long verdict = SSL_get_verify_result(session); verdict != X509_V_OK) {
        error_ =
            std::string("the server's certificate is refused: ") + X509_verify_cert_error_string(verdict);
        ERR_clear_error();
      } else {
        error_ = "TLS: " + openssl_message();
      }
  }
  return {Progress::failed, 0};
}

TlsSession::Step TlsSession::handshake() {
  if (!error_.empty()) return {Progress::failed, 0};
  ERR_clear_error();
  errno = 0;
  return after(SSL_do_handshake(state_->session.get()));
}

TlsSession::Step TlsSession::read(std::span<char> into) {
  ERR_clear_error();
  errno = 0;
  return after(
      SSL_read(state_->session.get(), into.data(), static_cast<int>(std::min(into.size(), max_record))));
}

TlsSession::Step TlsSession::write(std::string_view bytes) {
  ERR_clear_error();
  errno = 0;
  return after(
      SSL_write(state_->session.get(), bytes.data(), static_cast<int>(std::min(bytes.size(), max_record))));
}

}  // namespace weir
