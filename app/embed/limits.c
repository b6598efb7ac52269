// SPDX-License-Identifier: BSD-3-Clause
// weir in a C program: ask for each request, obey, report. Usage: weir-embed-c [CONFIG.toml]
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static const char default_config[] =
    "[[rule]]\n"
    "name = \"per-user\"\n"
    "match = { method = \"GET\" }\n"
    "key = [\"header:x-api-key\"]\n"
    "limit = 100\n"
    "interval = \"1s\"\n";

static weir_text text_of(const char* text) { return (weir_text){.bytes = text, .size = strlen(text)}; }

static void log_line(void* context, const char* line, size_t size) {
  fprintf(context, "%.*s\n", (int)size, line);
}

int main(int argc, char** argv) {
  weir_error error;
  weir_throttle* const throttle = argc > 1
                                      ? weir_create_from_file(argv[1], 1, log_line, stderr, &error)
                                      : weir_create(default_config, "built-in", 1, log_line, stderr, &error);
  if (throttle == NULL || !weir_start(throttle, &error)) {
    fprintf(stderr, "%s\n", error.text);
    weir_destroy(throttle);
    return 2;
  }

  weir_worker* const worker = weir_worker_at(throttle, 0);  // one for each thread
  weir_online(worker);
  const weir_header api_key = {.name = text_of("x-api-key"), .value = text_of("greedy")};
  const weir_request request = {
      .method = text_of("GET"), .target = text_of("/api/items"), .headers = &api_key, .header_count = 1};
  unsigned served = 0;
  weir_decision decision;
  do {
    decision = weir_admit(worker, &request, weir_now());
    served += decision.verdict == WEIR_ADMIT;
    weir_quiescent(worker);
  } while (decision.verdict == WEIR_ADMIT && served < 1000);
  weir_offline(worker);  // before anything that sleeps or blocks

  printf("served %u", served);
  if (decision.verdict == WEIR_BLOCK)
    printf(", then refused by %s: come back in %lld ms", weir_rule_name(throttle, decision.rule),
           (long long)(decision.retry_after / 1000000));
  printf("\n");
  const bool synchronised = weir_stop(throttle, 1000000000);
  weir_destroy(throttle);
  return synchronised ? 0 : 1;
}
