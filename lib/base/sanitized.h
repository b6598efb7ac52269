// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// WEIR_SANITIZED: 1 where what is compiled runs under the address or the thread sanitizer, else 0.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC's
#define WEIR_SANITIZED 1
#elif defined(__has_feature)  // Clang's, of which not every version has those
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_SANITIZED 1
#endif
#endif
#ifndef WEIR_SANITIZED
#define WEIR_SANITIZED 0
#endif
