// SPDX-License-Identifier: BSD-3-Clause
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_meter.h>

#include <array>
#include <cstdio>
#include <stdexcept>

#include "peers.h"

namespace weir::bench {

bool prepare_peers() {
  std::array<std::string, 8> words{"bench-decision", "--no-huge", "--no-pci", "--no-shconf", "-m",
                                   "2048",           "-l",        "0"};
  std::array<char*, 8> arguments;
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) >= 0) return true;
  std::fprintf(stderr, "bench-decision: rte_eal_init: %s\n", rte_strerror(rte_errno));
  return false;
}

RteHash::RteHash(std::size_t keys) : counts_(keys * 2) {
  rte_hash_parameters parameters{};
  parameters.name = "peer";
  parameters.entries = static_cast<std::uint32_t>(keys * 2);
  parameters.key_len = sizeof(std::uint64_t);
  hash_ = rte_hash_create(&parameters);
  if (hash_ == nullptr) throw std::runtime_error(std::string("rte_hash_create: ") + rte_strerror(rte_errno));
}
RteHash::~RteHash() { rte_hash_free(hash_); }

void RteHash::admit(std::span<const PlainKey> keys) {
  std::array<const void*, RTE_HASH_LOOKUP_BULK_MAX> pointers;
  std::array<hash_sig_t, RTE_HASH_LOOKUP_BULK_MAX> hashes;
  std::array<std::int32_t, RTE_HASH_LOOKUP_BULK_MAX> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    pointers[i] = &keys[i].hash;
    hashes[i] = static_cast<hash_sig_t>(keys[i].hash >> 32);
  }
  rte_hash_lookup_with_hash_bulk(hash_, pointers.data(), hashes.data(),
                                 static_cast<std::uint32_t>(keys.size()), places.data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (places[i] < 0) places[i] = rte_hash_add_key_with_hash(hash_, pointers[i], hashes[i]);
    if (places[i] < 0) throw std::runtime_error("rte_hash is full");
    admitted_ += ++counts_[static_cast<std::size_t>(places[i])] <= limit;
  }
}

struct RteMeter::Meters {
  rte_meter_srtcm_profile profile;
  std::vector<rte_meter_srtcm> meters;
};

RteMeter::RteMeter(std::size_t keys) : meters_(std::make_unique<Meters>()) {
  rte_meter_srtcm_params parameters{.cir = limit, .cbs = limit, .ebs = limit};
  if (rte_meter_srtcm_profile_config(&meters_->profile, &parameters) != 0)
    throw std::runtime_error("rte_meter_srtcm_profile_config failed");
  meters_->meters.resize(keys);
  for (rte_meter_srtcm& meter : meters_->meters) rte_meter_srtcm_config(&meter, &meters_->profile);
}
RteMeter::~RteMeter() = default;

void RteMeter::admit(std::span<const PlainKey> keys) {
  const std::uint64_t now = rte_rdtsc();
  for (const PlainKey& key : keys) __builtin_prefetch(&meters_->meters[key.index], 1);
  for (const PlainKey& key : keys)
    admitted_ += rte_meter_srtcm_color_blind_check(&meters_->meters[key.index], &meters_->profile, now, 1) !=
                 RTE_COLOR_RED;
}

}  // namespace weir::bench
