// SPDX-License-Identifier: BSD-3-Clause
// To be preloaded: the main thread gets every thread that it asks for, and no other thread gets any, as where
// the system has none left.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (gettid() != getpid()) return EAGAIN;
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  void* const found = dlsym(RTLD_NEXT, "pthread_create");
  memcpy(&create, &found, sizeof create);
  return create(thread, attributes, run, argument);
}
