// SPDX-License-Identifier: BSD-3-Clause
// TLS: who is believed, who is not, and that the reason is told. Certificates are read anew for every
// connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "certificates.h"
#include "redis_cluster.h"
#include "redis_sentinels.h"
#include "redis_server.h"
#include "stored_counters.h"
#include "watched_store.h"

namespace weir {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string local = "IP:127.0.0.1,DNS:localhost,DNS:store.weir.test";

/// Options of a server that speaks TLS on a port of its own.
std::vector<std::string> tls_options(const CertificateFiles& files, const CertificateAuthority& authority,
                                     const std::string& wants_clients = "no") {
  return {"--tls-cert-file",    files.certificate, "--tls-key-file",     files.key,
          "--tls-ca-cert-file", authority.file(),  "--tls-auth-clients", wants_clients};
}

class Tls : public ::testing::Test {
 protected:
  static std::vector<std::string> with_port(std::vector<std::string> options, std::uint16_t port) {
    options.insert(options.end(), {"--tls-port", std::to_string(port)});
    return options;
  }
  static std::string url(std::uint16_t port, const std::string& host = "127.0.0.1") {
    return "rediss://" + host + ":" + std::to_string(port);
  }
  StoreConfig trusting(const CertificateAuthority& authority) const {
    StoreConfig config = quick_config();
    config.timeout = std::chrono::seconds{5};  // keys are not agreed on as quickly as bytes are read
    config.ca_file = authority.file();
    return config;
  }
  void expect_refusal(const StoreConfig& config, const std::string& at, const std::string& words) {
    WatchedStore store(at, config);
    store.add("a", 1, 1);
    EXPECT_TRUE(store.wait_until_down(words));
    EXPECT_EQ(store.figures().applied, 0u);
    EXPECT_EQ(store.figures().pending, 1u);
  }

  CertificateAuthority authority_{"weir test authority"};
  std::uint16_t port_ = free_port();
};

TEST_F(Tls, AServerWhoseAuthorityIsBelievedIsWrittenTo) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  WatchedStore store(url(port_), trusting(authority_));
  std::vector<std::pair<std::string, std::uint64_t>> many;
  for (int i = 0; i < 5000; ++i) many.emplace_back("rule|" + std::to_string(i), 2);
  for (Ordinal ordinal = 0; ordinal < 3; ++ordinal) store.add(many, ordinal);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(server.client()).sum(), 30'000);
  EXPECT_EQ(store.figures().failures, 0u);
}

TEST_F(Tls, TheHostOfTheUrlOrTheServerNameMustBeTheCertificates) {
  RedisServer server(
      with_port(tls_options(authority_.issue("server", "DNS:store.weir.test"), authority_), port_));
  expect_refusal(trusting(authority_), url(port_), "mismatch");
  StoreConfig named = trusting(authority_);
  named.server_name = "other.weir.test";
  expect_refusal(named, url(port_), "mismatch");
  named.server_name = "store.weir.test";
  WatchedStore store(url(port_), named);
  EXPECT_TRUE(store.wait_until_up());
}

TEST_F(Tls, AHostByNameIsHeldAgainstTheCertificatesNames) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  WatchedStore store(url(port_, "localhost"), trusting(authority_));
  EXPECT_TRUE(store.wait_until_up());
}

TEST_F(Tls, AnAuthorityThatIsNotBelievedIsTold) {
  const CertificateAuthority other("somebody else");
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  expect_refusal(trusting(other), url(port_), "certificate");
}

TEST_F(Tls, WithoutAnAuthorityTheSystemsAreBelievedAndNobodyElse) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  StoreConfig config = quick_config();
  config.timeout = std::chrono::seconds{5};
  expect_refusal(config, url(port_), "certificate");
}

TEST_F(Tls, AnExpiredCertificateIsTold) {
  RedisServer server(
      with_port(tls_options(authority_.issue("server", local, Validity::expired), authority_), port_));
  expect_refusal(trusting(authority_), url(port_), "expired");
}

TEST_F(Tls, AServerThatWantsACertificateGetsOne) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_, "yes"), port_));
  {
    WatchedStore store(url(port_), trusting(authority_));
    store.add("a", 1, 1);
    EXPECT_TRUE(
        store.wait_until([](const StoreFigures& figures) { return !figures.up && figures.failures > 0; }));
    EXPECT_THAT(store.figures().error,
                AnyOf(HasSubstr("certificate"), HasSubstr("handshake"), HasSubstr("connection")));
  }
  const CertificateFiles own = authority_.issue("node", "DNS:node.weir.test");
  StoreConfig config = trusting(authority_);
  config.certificate_file = own.certificate;
  config.private_key_file = own.key;
  WatchedStore store(url(port_), config);
  store.add("a", 1, 1);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(server.client()).value("a", 1), 1);
}

TEST_F(Tls, FilesThatAreNotThereOrNotWhatTheyShouldBeAreTold) {
  const CertificateFiles own = authority_.issue("node", "DNS:node.weir.test");
  const CertificateFiles other = authority_.issue("other", "DNS:other.weir.test");
  RedisServer server(with_port(tls_options(own, authority_), port_));
  StoreConfig config = trusting(authority_);
  config.ca_file = "/nonexistent/authority.pem";
  expect_refusal(config, url(port_), "/nonexistent/authority.pem");
  config = trusting(authority_);
  config.certificate_file = own.certificate;
  config.private_key_file = "/nonexistent/node.key";
  expect_refusal(config, url(port_), "/nonexistent/node.key");
  config.private_key_file = other.key;
  expect_refusal(config, url(port_), "key");
  config.private_key_file.clear();
  expect_refusal(config, url(port_), "belong together");
}

TEST_F(Tls, AServerWithoutIsToldAndSoIsAStoreWithout) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  StoreConfig config = trusting(authority_);
  // Redis reads the greeting of TLS as a command that never ends, or closes.
  config.timeout = std::chrono::milliseconds{500};
  WatchedStore tls_to_plain(url(server.port()), config);
  EXPECT_TRUE(tls_to_plain.wait_until([](const StoreFigures& figures) { return figures.failures > 0; }));
  EXPECT_FALSE(tls_to_plain.figures().up);
  EXPECT_THAT(tls_to_plain.figures().error, AnyOf(HasSubstr("TLS"), HasSubstr("no answer in time")));
  WatchedStore plain_to_tls("redis://127.0.0.1:" + std::to_string(port_), quick_config());
  plain_to_tls.add("a", 1, 1);
  EXPECT_TRUE(plain_to_tls.wait_until([](const StoreFigures& figures) { return figures.failures > 0; }));
  EXPECT_FALSE(plain_to_tls.figures().up);
}

TEST_F(Tls, ACertificateRenewedOnDiskIsTakenWithTheNextConnection) {
  const CertificateAuthority old("the authority before");
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  const TestFolder folder("renewed");
  const std::filesystem::path file = folder.path() / "authority.pem";
  std::filesystem::copy_file(old.file(), file);
  StoreConfig config = trusting(authority_);
  config.ca_file = file;
  WatchedStore store(url(port_), config);
  store.add("a", 1, 5);
  ASSERT_TRUE(store.wait_until_down("certificate"));
  std::filesystem::rename(authority_.file(), file);
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(server.client()).value("a", 1), 5);
}

TEST_F(Tls, LosesAndDoublesNothingWhenConnectionsAreKilled) {
  RedisServer server(with_port(tls_options(authority_.issue("server", local), authority_), port_));
  WatchedStore store(url(port_), trusting(authority_));
  for (int round = 0; round < 100; ++round) {
    store.add({{"a", 1}, {"b", 2}}, 1);
    store.wait_for_wake(std::chrono::milliseconds{2});
    store.collect();
    if (round % 5 == 0) server.kill_clients();
  }
  ASSERT_TRUE(store.wait_until_quiet());
  EXPECT_EQ(StoredCounters(server.client()).value("a", 1), 100);
  EXPECT_EQ(StoredCounters(server.client()).value("b", 1), 200);
}

}  // namespace
}  // namespace weir
