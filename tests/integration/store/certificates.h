// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Certificates for TLS tests, made by the openssl command line in a folder of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "child_process.h"

namespace weir {

/// Where a certificate and its key are, as PEM.
struct CertificateFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;
};

enum class Validity : std::uint8_t { now, expired };

/// An authority that signs certificates for servers and clients.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);

  /// What makes the authority believed.
  std::filesystem::path file() const { return folder_.path() / "authority.pem"; }
  /// @param names  what it is made out to, as openssl has it: "IP:127.0.0.1,DNS:localhost"
  CertificateFiles issue(const std::string& file_name, const std::string& names,
                         Validity validity = Validity::now);

 private:
  TestFolder folder_;
};

}  // namespace weir
