// SPDX-License-Identifier: BSD-3-Clause
// The C face as a C program sees it. In virtual time, where time matters. Reports in TAP.
#define _POSIX_C_SOURCE 200809L  // nanosleep, strnlen
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

static int number = 0;
static int failed = 0;

#define CHECK(what) check((what), #what, __LINE__)
static bool check(bool good, const char* what, int line) {
  if (!good) {
    printf("# line %d: %s\n", line, what);
    ++failed;
  }
  return good;
}

static void end_of(const char* name) {
  static int failed_before = 0;
  printf("%s %d %s\n", failed == failed_before ? "ok" : "not ok", ++number, name);
  failed_before = failed;
}

static const int64_t second = 1000000000;

static const char rules[] =
    "[[rule]]\n"
    "name = \"user\"\n"
    "key = [\"header:x-user\", \"src_ip/24\"]\n"
    "match = { method = \"GET\" }\n"
    "limit = 3\n"
    "interval = \"1s\"\n"
    "action = \"reply-429\"\n"
    "[[rule]]\n"
    "name = \"text\"\n"
    "key = [\"header:x-text\"]\n"
    "match = { method = \"POST\" }\n"
    "limit = 5\n"
    "interval = \"1s\"\n";

static weir_text text_of(const char* text) { return (weir_text){text, strlen(text)}; }

/// A node in virtual time whose one worker takes part.
typedef struct node {
  weir_throttle* throttle;
  weir_worker* worker;
} node;

static void advance(weir_throttle* throttle, int64_t since_start) {
  int64_t next = 0;
  CHECK(weir_advance(throttle, 1000 * second + since_start, 10 * second + since_start, &next));
  CHECK(next > 10 * second + since_start);
}

static const int64_t at_start = 10 * 1000000000LL;

static node begin(void) {
  weir_error error;
  node made = {weir_create(rules, "test", 1, NULL, NULL, &error), NULL};
  if (!CHECK(made.throttle != NULL)) return made;
  advance(made.throttle, 0);
  made.worker = weir_worker_at(made.throttle, 0);
  weir_online(made.worker);
  return made;
}

static void finish(node ended) {
  weir_offline(ended.worker);
  weir_destroy(ended.throttle);
}

static const weir_header by_ann = {{"X-User", 6}, {"ann", 3}};

static weir_request get(void) {
  return (weir_request){.source = {.bytes = {203, 0, 113, 9}, .family = 4},
                        .method = text_of("GET"),
                        .target = text_of("/"),
                        .headers = &by_ann,
                        .header_count = 1};
}

static void mistakes_are_errors(void) {
  weir_error error;
  CHECK(weir_create("[[rule]]\nname = 7\n", "a.toml", 1, NULL, NULL, &error) == NULL);
  CHECK(strstr(error.text, "a.toml:2:8: ") != NULL);
  CHECK(weir_create(rules, "a.toml", 0, NULL, NULL, &error) == NULL);
  CHECK(strstr(error.text, "workers: 0") != NULL);
  CHECK(weir_create_from_file("/nonexistent/weir.toml", 1, NULL, NULL, &error) == NULL);
  CHECK(strstr(error.text, "/nonexistent/weir.toml") != NULL);
  CHECK(weir_create("", "a.toml", 0, NULL, NULL, NULL) == NULL);
  end_of("mistakes are errors, told as far as somebody listens");
}

static void of_more_mistakes_than_find_room_some_are_told_as_a_whole(void) {
  static const char last_words[] = "; there are the tables: node, store, ports, rule";
  static char many[64 * 1024];
  for (int i = 0; i < 200; ++i) sprintf(many + strlen(many), "unknown%d = 1\n", i);
  weir_error error;
  memset(&error, 'x', sizeof error);
  CHECK(weir_create(many, "a.toml", 1, NULL, NULL, &error) == NULL);
  const size_t size = strnlen(error.text, sizeof error.text);
  CHECK(size < sizeof error.text && size > sizeof error.text - 100);
  CHECK(strcmp(error.text + size - strlen(last_words), last_words) == 0);
  end_of("of more mistakes than find room some are told as a whole");
}

/// How much is told of a file's name that is longer than there is room for.
static size_t told_of(const char* first, const char* repeated) {
  static char path[4000];
  strcpy(path, first);
  while (strlen(path) + strlen(repeated) < sizeof path) strcat(path, repeated);
  weir_error error;
  memset(&error, 'x', sizeof error);
  CHECK(weir_create_from_file(path, 1, NULL, NULL, &error) == NULL);
  const size_t size = strnlen(error.text, sizeof error.text);
  CHECK(size < sizeof error.text && memcmp(error.text, path, size) == 0);
  return size;
}

static void a_line_that_is_too_long_ends_with_a_whole_character(void) {
  CHECK(told_of("", "a") == 2047);
  CHECK(told_of("", "\xc3\xa4") == 2046 && told_of("a", "\xc3\xa4") == 2047);
  CHECK(told_of("", "\xe2\x82\xac") == 2046 && told_of("a", "\xe2\x82\xac") == 2047);
  CHECK(told_of("aa", "\xe2\x82\xac") == 2045);
  CHECK(told_of("", "\xf0\x9f\x98\x80") == 2044 && told_of("aaa", "\xf0\x9f\x98\x80") == 2047);
  CHECK(told_of("aa", "\xf0\x9f\x98\x80") == 2046 && told_of("a", "\xf0\x9f\x98\x80") == 2045);
  CHECK(told_of("", "\x80") == 2044);  // no character at all
  end_of("a line that is too long ends with a whole character");
}

static void rules_and_workers_are_found(void) {
  const node one = begin();
  CHECK(weir_rules(one.throttle) == 2);
  CHECK(strcmp(weir_rule_name(one.throttle, 1), "text") == 0);
  CHECK(weir_rule_name(one.throttle, 2) == NULL);
  CHECK(weir_rule_called(one.throttle, "text") == 1);
  CHECK(weir_rule_called(one.throttle, "texts") == WEIR_NO_RULE);
  CHECK(weir_worker_at(one.throttle, 1) == NULL);
  finish(one);
  end_of("rules and workers are found, and those that there are not are none");
}

static void a_request_is_decided_on(void) {
  const node one = begin();
  const weir_request request = get();
  for (int i = 0; i < 3; ++i) {
    const weir_decision decision = weir_admit(one.worker, &request, at_start);
    CHECK(decision.verdict == WEIR_ADMIT && decision.rule == 0 && decision.limit == 3);
    CHECK(decision.remaining == (uint64_t)(2 - i) && decision.weight == 1);
  }
  const weir_decision refused = weir_admit(one.worker, &request, at_start);
  CHECK(refused.verdict == WEIR_BLOCK && refused.action == WEIR_REPLY_429 && refused.rule == 0);
  CHECK(refused.retry_after == second && refused.observed == WEIR_NO_RULE);

  weir_request other = request;
  other.source.bytes[2] = 114;
  other.weight = 4;
  CHECK(weir_admit(one.worker, &other, at_start).retry_after == WEIR_FOREVER);
  other.method = text_of("PUT");
  CHECK(weir_admit(one.worker, &other, at_start).rule == WEIR_NO_RULE);
  finish(one);
  end_of("a request is decided on under the rules that apply to it");
}

static void of_many_headers_the_first_ones_are_looked_at(void) {
  const node one = begin();
  weir_header headers[WEIR_MOST_HEADERS + 1];
  for (int i = 0; i <= WEIR_MOST_HEADERS; ++i) headers[i] = (weir_header){text_of("x-other"), text_of("-")};
  weir_request request = get();
  request.method = text_of("POST");
  request.headers = headers;
  request.header_count = WEIR_MOST_HEADERS + 1;
  headers[WEIR_MOST_HEADERS - 1] = (weir_header){text_of("x-text"), text_of("ann")};
  for (int i = 0; i < 5; ++i) CHECK(weir_admit(one.worker, &request, at_start).verdict == WEIR_ADMIT);
  CHECK(weir_admit_key(one.worker, 1, "ann", 3, 1, at_start).verdict == WEIR_BLOCK);
  finish(one);
  end_of("of many headers the first ones are looked at");
}

static void keys_share_the_limit_of_their_requests(void) {
  const node one = begin();
  const weir_request request = get();
  weir_key_room room;
  weir_key keys[40];
  weir_verdict verdicts[40];
  CHECK(weir_make_key_of_request(one.worker, 0, &request, &room, &keys[0]));
  CHECK(!weir_make_key_of_request(one.worker, 1, &request, &room, &keys[1]));
  keys[1] = weir_make_key(one.worker, 1, "ann", 3, 5);
  keys[2] = weir_make_key(one.worker, 1, "bob", 3, 6);
  weir_admit_keys(one.worker, keys, 3, at_start, verdicts, NULL, 0);
  CHECK(verdicts[0] == WEIR_ADMIT && verdicts[1] == WEIR_ADMIT && verdicts[2] == WEIR_BLOCK);
  CHECK(weir_admit(one.worker, &request, at_start).remaining == 1);

  for (int i = 1; i < 40; ++i) keys[i] = keys[0];
  weir_admit_keys(one.worker, keys, 40, at_start, verdicts, keys, 32);
  int admitted = 0;
  for (int i = 0; i < 40; ++i) admitted += verdicts[i] == WEIR_ADMIT;
  CHECK(admitted == 1);
  CHECK(weir_admit_key(one.worker, 1, "cho", 3, 0, at_start).remaining == 5);
  finish(one);
  end_of("keys share the limit of their requests, and are decided on in bursts");
}

static void costs_are_settled_afterwards(void) {
  const node one = begin();
  const weir_request request = get();
  const weir_key key = weir_make_key(one.worker, 1, "ann", 3, 1);
  const weir_instant charged = weir_span_began(one.worker);
  CHECK(charged.wall == 1000 * second && charged.monotonic == at_start);
  CHECK(weir_admit(one.worker, &request, at_start).remaining == 2);
  CHECK(weir_correct_request(one.worker, &request, 1, charged));
  CHECK(weir_admit_key(one.worker, 1, "ann", 3, 4, at_start).remaining == 1);
  CHECK(weir_correct(one.worker, &key, -3, charged));
  advance(one.throttle, second / 10);
  weir_quiescent(one.worker);
  advance(one.throttle, second / 10);
  weir_quiescent(one.worker);
  const int64_t now = at_start + second / 10;
  CHECK(weir_admit(one.worker, &request, now).remaining == 0);
  CHECK(weir_admit_key(one.worker, 1, "ann", 3, 0, now).remaining == 4);
  weir_offline(one.worker);
  CHECK(!weir_correct(one.worker, &key, 1, charged));
  CHECK(!weir_correct_request(one.worker, &request, 1, charged));
  weir_destroy(one.throttle);
  end_of("costs are settled afterwards");
}

static void what_there_is_not_has_no_size(void) {
  const node one = begin();
  weir_request request = get();
  request.host = (weir_text){NULL, 3};
  request.method = (weir_text){NULL, 3};
  request.headers = NULL;
  request.header_count = 7;
  weir_admit(one.worker, &request, at_start);
  finish(one);
  end_of("what there is not has no size");
}

static void figures_are_those_of_the_node(void) {
  const node one = begin();
  const weir_request request = get();
  for (int i = 0; i < 5; ++i) weir_admit(one.worker, &request, at_start);
  for (int part = 0; part < 3; ++part) {  // flip, drain, decide
    advance(one.throttle, second / 10);
    weir_quiescent(one.worker);
  }
  weir_figures figures;
  weir_rule_figures of_rules[2];
  CHECK(weir_read_figures(one.throttle, &figures, of_rules, 2));
  CHECK(figures.spans == 1 && figures.keys == 1 && figures.counts_synced == 3);
  CHECK(figures.store_up && figures.store_error[0] == '\0');
  CHECK(of_rules[0].offered == 5 && of_rules[0].admitted == 3 && of_rules[0].blocked == 2);
  CHECK(of_rules[0].blocked_keys == 1 && of_rules[1].offered == 0);
  memset(of_rules, 7, sizeof of_rules);
  CHECK(weir_read_figures(one.throttle, &figures, of_rules, 1));
  CHECK(of_rules[0].offered == 5 && of_rules[1].offered != 0);
  CHECK(weir_read_figures(one.throttle, &figures, NULL, 0));
  finish(one);
  end_of("figures are those of the node, of as many rules as there is room for");
}

static void in_the_callers_time_it_stops_in_that_time_too(void) {
  const node one = begin();
  const weir_request request = get();
  for (int i = 0; i < 5; ++i) weir_admit(one.worker, &request, at_start);
  weir_offline(one.worker);
  CHECK(weir_stop_at(one.throttle, 1000 * second + second / 20, 10 * second + second / 20, second));
  weir_figures figures;
  CHECK(weir_read_figures(one.throttle, &figures, NULL, 0));
  CHECK(figures.counts_synced == 3 && figures.counts_pending == 0 && figures.counts_expired == 0);
  CHECK(figures.span_overruns == 0);  // the span ends early, and no year late
  weir_destroy(one.throttle);
  end_of("in the caller's time it stops in that time, too");
}

static void with_its_own_thread_it_starts_and_stops(void) {
  weir_error error;
  weir_throttle* const throttle = weir_create(rules, "test", 2, NULL, NULL, &error);
  CHECK(throttle != NULL && weir_start(throttle, &error));
  weir_worker* const worker = weir_worker_at(throttle, 1);
  weir_online(worker);
  const weir_request request = get();
  CHECK(weir_admit(worker, &request, WEIR_NOW).verdict == WEIR_ADMIT);
  const weir_key key = weir_make_key(worker, 1, "ann", 3, 1);
  weir_verdict verdict = WEIR_BLOCK;
  weir_admit_keys(worker, &key, 1, WEIR_NOW, &verdict, NULL, 0);
  CHECK(verdict == WEIR_ADMIT && weir_now() > 0);
  weir_offline(worker);
  CHECK(weir_stop(throttle, WEIR_FOREVER));
  weir_destroy(throttle);
  weir_destroy(NULL);
  end_of("with its own thread it starts and stops");
}

static void note(void* context, const char* line, size_t size) {
  char* const noted = context;
  noted[size < 200 ? (memcpy(noted, line, size), size) : 0] = '\0';
}

static void what_is_worth_a_line_is_told_with_the_callers_context(void) {
  char text[2048] = "[store]\nurl = \"redis+unix:///nonexistent/redis.sock\"\n";
  strcat(text, rules);
  char noted[200] = "";
  weir_error error;
  weir_throttle* const throttle = weir_create(text, "test", 1, note, noted, &error);
  if (CHECK(throttle != NULL)) {
    weir_figures figures = {.store_error = ""};
    const struct timespec moment = {.tv_nsec = 1000000};
    const char* const where = "/nonexistent/redis.sock";
    for (int patience = 10000; patience > 0 && strstr(figures.store_error, where) == NULL; --patience) {
      nanosleep(&moment, NULL);
      weir_read_figures(throttle, &figures, NULL, 0);
    }
    CHECK(strstr(figures.store_error, where) != NULL && !figures.store_up);
    for (int spans = 0; spans < 5; ++spans) advance(throttle, spans * second / 10);
    CHECK(strstr(noted, "store lost: ") == noted);
    weir_destroy(throttle);
  }
  end_of("what is worth a line is told with the caller's context");
}

int main(void) {
  mistakes_are_errors();
  of_more_mistakes_than_find_room_some_are_told_as_a_whole();
  a_line_that_is_too_long_ends_with_a_whole_character();
  rules_and_workers_are_found();
  a_request_is_decided_on();
  of_many_headers_the_first_ones_are_looked_at();
  keys_share_the_limit_of_their_requests();
  costs_are_settled_afterwards();
  what_there_is_not_has_no_size();
  figures_are_those_of_the_node();
  in_the_callers_time_it_stops_in_that_time_too();
  with_its_own_thread_it_starts_and_stops();
  what_is_worth_a_line_is_told_with_the_callers_context();
  printf("1..%d\n", number);
  return failed != 0;
}
