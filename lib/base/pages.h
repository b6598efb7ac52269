// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a program may say to the kernel about pages that it has reserved and not touched yet.
///
/// The problem: whoever touches such a page first waits while the kernel looks for one and clears it, and a
/// worker waits for nobody. But memory that is touched when it is reserved is taken whether it is ever needed
/// or not. So one thread has pages provided that another one is about to use.
#pragma once

#include <cstddef>

namespace weir {

/// Has the kernel provide the pages now. Changes no content, and others may write there meanwhile.
/// @return false: this kernel does not know how (Linux does since 5.14), or has no memory
bool provide_pages(void* begin, std::size_t bytes) noexcept;

/// Whether provide_pages() can be had.
bool can_provide_pages() noexcept;

/// Has what lies on small pages there put on huge ones, at once. Changes no content; who uses it meanwhile
/// may wait. Only advice: where the kernel cannot (Linux can since 6.1) it may do so by itself, some time
/// later.
/// @param begin  of a huge page
void gather_pages(void* begin, std::size_t bytes) noexcept;

/// Has the pages lie on the NUMA node of the calling thread, whoever touches them first. Only advice: where
/// the kernel does not take it, they lie where they are first touched.
/// @param begin  of a page
void prefer_this_node(void* begin, std::size_t bytes) noexcept;

}  // namespace weir
