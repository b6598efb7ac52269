# SPDX-License-Identifier: BSD-3-Clause
"""Deliberately wrong variants of the engine and the data plane, and the test that must catch each.

name     what is wrong with it, in words
file     the source it changes; `old` must be in it exactly once
units    what is compiled again: by default the file itself; for a header, the sources whose code it ends up in
program  one of PROGRAMS
test     the test that must fail
"""

PROGRAMS = {
    "engine": "tests/unit/engine/unit-engine",
    "dataplane": "tests/unit/dataplane/unit-dataplane",
    "shared": "tests/unit/shared/unit-shared",
    "property": "tests/property/property",
    "classify": "tests/unit/classify/unit-classify",
    "plain_burst": "tests/unit/node/unit-plain-burst",
    "node": "tests/unit/node/unit-node",
    "filter": "tests/unit/filter/unit-filter",
}
# Not built where the programs are not.
OPTIONAL = {"filter"}

ENGINE = ["lib/engine/engine.cc"]
ENGINE_AND_QUOTA = ["lib/engine/engine.cc", "lib/engine/quota.cc"]
WORKER = ["lib/dataplane/worker_core.cc"]


def engine(name, test, old, new, file="lib/engine/engine.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "engine", "test": test, **more}


def worker(name, test, old, new, file="lib/dataplane/worker_core.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "dataplane", "test": test, **more}


def shared(name, test, old, new, file="lib/shared/span_table.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "shared", "test": test, **more}


def classify(name, test, old, new, file="lib/classify/plain_classifier.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "classify", "test": test, **more}


def plain_burst(name, test, old, new, file="lib/dataplane/plain_burst.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "plain_burst", "test": test, **more}


def node(name, test, old, new, file="lib/control/controller.cc", **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "node", "test": test, **more}


def burst_look(name, test, old, new, file="app/filter/burst_look_kernel.h", **more):
    more.setdefault("units", ["app/filter/burst_look_avx2.cc", "app/filter/burst_look_avx512.cc"])
    return {"name": name, "file": file, "old": old, "new": new, "program": "filter", "test": test, **more}


def whole(name, test, old, new, file, **more):
    return {"name": name, "file": file, "old": old, "new": new, "program": "property", "test": test, **more}


MUTANTS = [
    # Counting.
    engine(
        "the last span's count is written to the interval that runs",
        "Step1.TheLastSpanOfAnIntervalIsPushedAfterItsEndAndStillBelongsToIt",
        "write(rule, slot, slot.current.ordinal, slot.unwritten);\n  slot.unwritten = 0;\n  if (slot.fresh) ask_first",
        "write(rule, slot, rule.clock.ordinal(now.wall), slot.unwritten);\n  slot.unwritten = 0;\n  if (slot.fresh) ask_first",
    ),
    engine(
        "a straggler's count goes to the interval that runs",
        "Step1.AStragglersCountGoesToItsOwnOrdinalNotToTheRunningOne",
        "const Ordinal ordinal = span.ordinal;",
        "const Ordinal ordinal = std::max(span.ordinal, rule.span.ordinal);",
    ),
    engine(
        "refused requests are counted",
        "Penalize.ByDefaultRefusedRequestsAreNotCountedSoAKeyUnderOverloadRecovers",
        "return penalize ? offered : admitted;",
        "return offered;",
        file="lib/engine/rule_state.h",
        units=ENGINE,
    ),
    engine(
        "`penalize` counts admitted requests all the same",
        "Penalize.OfferedRequestsAreCountedSoThatWhoKeepsHammeringStaysBlocked",
        "return penalize ? offered : admitted;",
        "return admitted;",
        file="lib/engine/rule_state.h",
        units=ENGINE,
    ),
    engine(
        "what is unwritten when the interval changes is forgotten",
        "Step1.CountsOfTwoIntervalsDrainedAtOnceAreWrittenEachToItsOwn",
        "write(rule, slot, slot.current.ordinal, slot.unwritten);\n    slot.unwritten = 0;",
        "slot.unwritten = 0;",
    ),
    engine(
        "a count is written again with the next span",
        "Step1.EachSpansCountIsWrittenOnce",
        "  slot.unwritten = 0;\n  if (slot.fresh) ask_first",
        "  if (slot.fresh) ask_first",
    ),
    # Blocks.
    engine(
        "traffic extends a cooldown",
        "Step2.ABlockIsNeitherShortenedNorExtendedByTraffic",
        "if (active(at)) return false;",
        "",
        file="lib/limit/cooldown.h",
        units=ENGINE,
    ),
    engine(
        "a cooldown is half as long",
        "Step2.MoreThanTheLimitInTheStoreBlocksForOneCooldown",
        ": at + cooldown;",
        ": at + cooldown / 2;",
        file="lib/limit/cooldown.h",
        units=ENGINE,
    ),
    engine(
        "reaching the limit counts as exceeding it",
        "Step2.ReachingTheLimitExactlyIsNotExceedingIt",
        "reply.total > rule.limit_of(detail))\n    begin_block",
        "reply.total >= rule.limit_of(detail))\n    begin_block",
    ),
    engine(
        "reaching the node's part of the limit counts as exceeding it",
        "Step5.TheCumulativeRuleCountsTheIntervalSoFarTimesNodes",
        "static_cast<unsigned __int128>(count) * all_ > static_cast",
        "static_cast<unsigned __int128>(count) * all_ >= static_cast",
        file="lib/limit/cooldown.h",
        units=ENGINE,
    ),
    engine(
        "a refusal that unlucky chunks caused is never pardoned",
        "Step2.ARefusalThatOnlyUnluckyChunksCausedIsPardoned",
        "pardoned_.push_back(slot.key);",
        "begin_block(rule, slot, detail.refused_at);",
    ),
    engine(
        "a cooldown begins when the controller hears of the refusal",
        "Step2.TheFirstRequestRefusedForWantOfAllowanceBeginsTheCooldown",
        "begin_block(rule, slot, detail.refused_at);",
        "begin_block(rule, slot, last_step_.monotonic + std::chrono::milliseconds{100});",
    ),
    # The seeds' ratio of nodes.
    engine(
        "the sum of an interval is read as soon as it has ended",
        "Step4.TheSumOfAnEndedIntervalIsReadOneSpanAfterItsEnd",
        "  rule.span = next;\n}",
        "  rule.span = next;\n  read_ended(rule);\n}",
    ),
    engine(
        "what others have counted is not taken off",
        "Allowance.WhatOthersHaveCountedIsTakenOffAtOnce",
        "std::uint64_t allowance = less(limit, others_now(rule, key, now));",
        "std::uint64_t allowance = limit;",
        file="lib/engine/quota.cc",
    ),
    engine(
        "what others counted in the last interval is taken off this one",
        "Allowance.ANewIntervalBeginsAfresh",
        "return key.slot.current.ordinal == rule.clock.ordinal(now.wall) ? key.detail.counted[0].others() : 0;",
        "return key.detail.counted[0].others();",
        file="lib/engine/quota.cc",
    ),
    engine(
        "`open` limits by the share while the store is away",
        "Step3.OpenBlocksOnlyOnProof",
        "  if (!cluster.store_reached && rule.on_store_failure == OnStoreFailure::open) return NodesRatio();",
        "  if (!cluster.store_reached && rule.on_store_failure == OnStoreFailure::open) return NodesRatio(1, 3);",
        file="lib/engine/quota.cc",
    ),
    engine(
        "`closed` admits while the store is away",
        "Step3.ClosedAdmitsNothingWhileTheStoreIsAwayAndAllAgainWhenItIsBack",
        "return !cluster.store_reached && rule.on_store_failure == OnStoreFailure::closed;",
        "return false;",
        file="lib/engine/quota.cc",
    ),
    # What is kept back, and what a node learns of the time before.
    engine(
        "keys near their limit are kept back too",
        "HoldBack.KeysNearTheirLimitAreToldOfAtOnce",
        "if (!near && may_hold(rule, slot, detail))",
        "if (rule.hold > 0 && slot.unwritten <= rule.hold && slot.current.offered == slot.current.admitted)",
    ),
    engine(
        "what was kept back is never written",
        "HoldBack.ItIsWrittenOnceToItsOwnIntervalWithinTheNextOne",
        "  write_held(rule, next, end_all);\n",
        "",
    ),
    engine(
        "what was kept back is written to the interval that runs",
        "HoldBack.NoJumpOfTheClockLosesOrDoublesWhatIsKept",
        "write(rule, slot, slot.current.ordinal - past.held_age, std::exchange(past.held, 0), CounterUse::held);",
        "write(rule, slot, rule.span.ordinal, std::exchange(past.held, 0), CounterUse::held);",
    ),
    engine(
        "a late answer of what was kept back blocks",
        "HoldBack.ALateAnswerBlocksNothing",
        "  if (reply.use == CounterUse::held) return;",
        "",
    ),
    engine(
        "a node that begins where there are others keeps back at once",
        "HoldBack.ANodeThatFindsOthersKeepsNothingBackBeforeItHasBeenCounted",
        "cluster_.founded = reply.total == 0;",
        "cluster_.founded = true;",
    ),
    engine(
        "each of the first nodes keeps back as much as all may",
        "HoldBack.TheFirstNodesKeepBackSoLittleBeforeTheyAreCountedThatItIsNoMoreThanIsAllowed",
        "share_holds(std::uint64_t{alive} * (std::uint64_t{alive} + 1));",
        "share_holds(2);",
    ),
    engine(
        "a node keeps back before the store has answered",
        "HoldBack.NothingIsKeptBackBeforeTheStoreHasAnswered",
        "std::uint64_t hold = 0;",
        "std::uint64_t hold = 10;",
        file="lib/engine/rule_state.h",
        units=["lib/engine/engine.cc", "lib/engine/quota.cc", "lib/engine/rule_state.cc"],
    ),
    engine(
        "only the running interval is asked for a block",
        "StoredBlock.AlsoAcrossABorderOfTheIntervalsThatEndsAreCountedBy",
        "  write_block(rule, slot, running + 1, 0);\n",
        "",
    ),
    engine(
        "a block is not told to the store",
        "StoredBlock.ANodeThatComesToTheKeyTakesItOver",
        "if (ledger_.own_detail(slot).block.begin(at, rule.block.length(slot.key)))\n    blocks_.push_back(ledger_.index_of(slot));",
        "ledger_.own_detail(slot).block.begin(at, rule.block.length(slot.key));",
    ),
    engine(
        "what others were offered before counts against the share",
        "FirstTouch.WhatOthersWereOfferedBeforeSaysNothingOfTheShareFromNowOn",
        "if (std::exchange(detail.looked_back, false))",
        "if (std::exchange(detail.looked_back, false) && false)",
    ),
    engine(
        "a key that others use too is left out of the publication",
        "Of/Overrides.NameEveryKeyWhoseQuotaIsNotTheDefaultWhateverHappens/fixed_window",
        "  if (shared.others() > 0) let_differ(slot);\n",
        "",
    ),
    engine(
        "a key that is blocked is left out of the publication",
        "Step2.TheFirstRequestRefusedForWantOfAllowanceBeginsTheCooldown",
        "  let_differ(slot);\n  if (ledger_.own_detail(slot).block.begin(",
        "  if (ledger_.own_detail(slot).block.begin(",
    ),
    # The worker.
    worker(
        "a refused request is charged to its other rules",
        "Hierarchy.AChildsRefusalLeavesTheParentsAllowanceToOthers",
        "        undraw(here, terms, now);\n",
        "        charge(here, keys[i].rule, weight);\n",
    ),
    worker(
        "a rule's parent is charged before its child is asked",
        "Hierarchy.AChildsRefusalLeavesTheParentsAllowanceToOthers",
        "      charged[i] = true;\n      continue;",
        "      if (here.entry != nullptr) charge(here, planned.rule, weight);\n      continue;",
    ),
    worker(
        "a request of some weight counts as one",
        "Weights.ARequestCostsItsRulesWeightTimesItsOwn",
        "    table_->charge(touched.place, weight);",
        "    table_->charge(touched.place, 1);",
    ),
    worker(
        "a refusal is kept from the other workers",
        "Worker.ARefusalByOneWorkerHoldsForAllOfThem",
        "  if (mark == AllowanceCell::no_refusal || MonotonicTime(Duration(mark)) + length <= now)",
        "  if (MonotonicTime(Duration(mark)) == now)",
    ),
    worker(
        "a refusal is forgotten at the window's end before it has been judged",
        "Worker.ARefusalHoldsAcrossTheIntervalsEndUntilItHasBeenJudged",
        "if (refused_at == AllowanceCell::no_refusal && !publication_->judged && window.ended != nullptr)",
        "if (refused_at == AllowanceCell::no_refusal && publication_->judged && window.ended == nullptr)",
    ),
    worker(
        "a worker that could not be flipped draws from the next window",
        "Worker.LeftInItsTableAtAnIntervalsEndItGoesOnDrawingFromThatTablesInterval",
        "  publication_ = published;\n",
        "  publication_ = published;\n  windows_ = published->windows;\n",
    ),
    worker(
        "a lowered allowance is taken up with the next table only",
        "Worker.TakesUpALoweredAllowanceWithinTheSpan",
        "if (table_->take_stale(place)) refresh(place, planned.key, now);",
        "if (table_->take_stale(place) && table_->entry(place).cell == nullptr) refresh(place, planned.key, now);",
    ),
    worker(
        "what a rule only observes is refused",
        "Observe.ComputesAndReportsButLetsEverythingPass",
        "if (terms.action == Action::observe) {",
        "if (terms.action == Action::observe && now == never) {",
    ),
    worker(
        "a publication in the memory of the one before is not taken up",
        "Worker.TakesUpAPublicationThatLiesWhereTheOneItHeldWas",
        "if (published != publication_ || published->generation != taken_up_) [[unlikely]]",
        "if (published != publication_) [[unlikely]]",
        file="lib/dataplane/worker_core.h",
        units=["tests/unit/dataplane/worker_core_test.cc"],
    ),
    node(
        "what a key was told in the span before is taken to hold",
        "Publications.OfTheSpanBeforeNothingHoldsHoweverLittleHasChangedSince",
        "this->mark() - mark > terms_since() - holds_since",
        "this->mark() - mark > generation - holds_since",
        file="lib/shared/publication.h",
        units=["tests/unit/node/publications_test.cc"],
    ),
    node(
        "every publication is noticed",
        "Publications.WhereAJudgementChangesNothingWorkersNeedNotNotice",
        "next.same_for = before->same_for + 1;",
        "next.same_for = 0;",
    ),
    node(
        "a change that has been told is noticed with every publication after it",
        "Publications.WhatHasBeenNoticedOnceNeedNotBeNoticedAgain",
        "if (changed_.size() == told_changed_)",
        "if (changed_.empty())",
    ),
    node(
        "a key that a judgement changes is not noticed",
        "Publications.AJudgementThatChangesAKeyIsNoticedAndOnlyThatKeyIsLookedUpAgain",
        "if (changed_.size() == told_changed_)",
        "if (true)",
    ),
    shared(
        "a key whose line another one has brought under a new publication is not looked up again",
        "SpanTable.ALineIsBroughtUpToANewPublicationAsAWholeAndTellsWhoseTermsMayHaveChanged",
        "line.stale |= static_cast<std::uint8_t>(1U << lane);",
        "",
        file="lib/shared/span_table.h",
        units=["tests/unit/shared/span_table_test.cc"],
    ),
    worker(
        "a key kept from an earlier span is blocked for what others took of a shared cell",
        "Keys.KeptFromAnEarlierSpanAreNotBlockedForWhatOthersTookWhereNoCellIsLeftForThem",
        "pooled = pool.claim(planned.key, index_); !pooled.own) [[unlikely]]",
        "pooled = pool.claim(planned.key, index_); !pooled.own && place == 0) [[unlikely]]",
    ),
    worker(
        "a worker that had nothing to do decides by what it knew then",
        "Calls/IdleWorker.TakesUpTheWindowThatRunsBeforeItDecides/admit_keys",
        "if (!window_is_known(window)) return quiescent();",
        "if (!window_is_known(window)) return;",
    ),
    worker(
        "admit() decides by windows that are over",
        "Calls/IdleWorker.TakesUpTheWindowThatRunsBeforeItDecides/admit",
        "Decision WorkerCore::admit(const Request& request, MonotonicTime now) noexcept {\n  catch_up();",
        "Decision WorkerCore::admit(const Request& request, MonotonicTime now) noexcept {\n",
    ),
    worker(
        "admit_burst() decides by windows that are over",
        "Calls/IdleWorker.TakesUpTheWindowThatRunsBeforeItDecides/admit_burst",
        "std::span<Decision> decisions, Detail detail) noexcept {\n  catch_up();",
        "std::span<Decision> decisions, Detail detail) noexcept {\n",
        file="lib/dataplane/request_burst.cc",
    ),
    worker(
        "admit_key() decides by windows that are over",
        "Calls/IdleWorker.TakesUpTheWindowThatRunsBeforeItDecides/admit_key",
        "MonotonicTime now) noexcept {\n  catch_up();\n  key_bytes_.clear();",
        "MonotonicTime now) noexcept {\n\n  key_bytes_.clear();",
    ),
    worker(
        "a worker draws from its pool although that serves a later window",
        "Worker.ThatHasNotComeRoundForTwoWindowsDrawsNothingAlsoWhereItsPoolServesALaterOne",
        "return now.running_number == mine || now.ended_number == mine;",
        "return now.running == windows_[window].running || now.ended == windows_[window].running || mine == ~0ULL;",
    ),
    worker(
        "what is ready serves a key that has been blocked",
        "Ready.WhatWasDrawnBeforeABlockServesNobodyWhileItLasts",
        "      return now >= touched.blocked_until;\n    case Algorithm::shed:",
        "      return true;\n    case Algorithm::shed:",
    ),
    worker(
        "what is ready under one publication is taken under the next, whatever that says",
        "Ready.AKeyThatANewPublicationNamesIsLookedUpAgainAndTheOthersAreNot",
        "return publication_->still_holds(since, key);",
        "return since == since || key == 0;",
    ),
    worker(
        "a request too heavy to be kept ready is charged twice",
        "Ready.ARequestHeavierThanWhatAPlaceCanKeepIsChargedExactly",
        "    touched.entry->drawn += weight;",
        "    touched.entry->drawn += 2 * weight;",
    ),
    worker(
        "a burst's keys are decided upon without their rules' weight",
        "Keys.AreDecidedUponAsOneAfterTheOtherWhateverIsToldOfTheNext",
        "return rule_weight * key.weight;",
        "return 0 * rule_weight + key.weight;",
    ),
    worker(
        "all of a burst's keys of a rule are taken to weigh what the first of them does",
        "Keys.WeighEachWhatItWeighs",
        "run.weight_of_each = differs == 0 ? run.weight(first) : 0;",
        "run.weight_of_each = run.weight(first);",
    ),
    worker(
        "a burst's keys use as much of their grants as its first one weighs",
        "Grant.EachOfABurstsKeysUsesAsMuchOfItAsItWeighs",
        "std::uint64_t weight = weight_of(i);",
        "std::uint64_t weight = weight_of(0);",
    ),
    worker(
        "a key known to be blocked stays so when its block has ended",
        "Worker.ObeysABlockUntilItEnds",
        "now < table_->entry(planned.place).blocked_until;",
        "now < table_->entry(planned.place).blocked_until + Duration{1};",
    ),
    worker(
        "a key known to be blocked is refused by a rule that only observes",
        "Observe.ComputesAndReportsButLetsEverythingPass",
        "terms.algorithm == Algorithm::cooldown && terms.action != Action::observe &&",
        "terms.algorithm == Algorithm::cooldown &&",
    ),
    worker(
        "what an entry says of a block is believed after the publication has changed it",
        "Worker.ObeysAPardonThoughItsNeighboursInTheTableHaveTakenUpThePublicationBefore",
        "(line.open & ~line.stale & bit(place)) != 0 && holds(place, key)",
        "(line.open & bit(place)) != 0 && holds(place, key)",
        file="lib/shared/span_table.h",
        units=WORKER,
    ),
    worker(
        "a flood of a blocked key is not counted as refused",
        "Worker.CountsOfferedAndAdmittedApart",
        "table_->entry(planned.place).refused += weight;",
        "table_->entry(planned.place).refused += 0 * weight;",
    ),
    whole(
        "who asks for less than a grant has no cell where sprayed keys have taken the grants' places",
        "SprayedGrants.WhoAsksForLessThanAGrantIsNotRefusedForWantOfOne",
        "if (!all_are_granted || used > grants_[rule].most)",
        "if (used > grants_[rule].most)",
        "lib/control/controller.cc",
    ),
    whole(
        "a node takes itself for the first by a clock that is wrong",
        "HoldBackOvershoot.OfNodesThatJoinOneWithWrongClocksIsWithinTheBound",
        " &&\n             heartbeat.ordinal(now.wall) == beat_)",
        ")",
        "lib/engine/engine.cc",
    ),
    whole(
        "what is kept back beyond a part that has become smaller is not written",
        "HoldBackOvershoot.OfNodesThatJoinOneAfterTheOtherIsWithinTheBound",
        "if (std::exchange(rule.holds_less, false)) write_beyond_hold(rule);",
        "",
        "lib/engine/engine.cc",
    ),
    plain_burst(
        "a plain burst is admitted out of a rule's grants, and the span is taken for empty",
        "Grant.APlainBurstThatUsesNothingElseMakesTheSpanCount",
        "if (others < keys.count) table_->counted_beside = true;\n  if (others == 0)",
        "if (others == 0)",
        file="lib/dataplane/worker_core.cc",
        program="dataplane",
    ),
    plain_burst(
        "a plain burst is admitted out of several rules' grants, and the span is taken for empty",
        "Grant.APlainBurstThatUsesNothingElseMakesTheSpanCount",
        "if ((admitted & all[i].granted) != 0) table_->counted_beside = true;",
        "",
        program="dataplane",
    ),
    worker(
        "a burst's keys are admitted out of grants, and the span is taken for empty",
        "Grant.ABurstOfKeysThatUseNothingElseMakesTheSpanCount",
        "if (others < keys.count) table_->counted_beside = true;\n  return others;",
        "return others;",
    ),
    # Grants.
    worker(
        "what is left of a grant is lost once more is asked",
        "Grant.WhatIsLeftOfItBecomesCreditOnceMoreIsAsked",
        "if (used < most) table_->add_credit(place, most - used);",
        "",
    ),
    shared(
        "a worker touches pages that the kernel has no memory for",
        "FillingBytes.WhereTheKernelHasNoMemoryThereIsRoomForNoMoreThanThereIsUntilItHasSome",
        "return used() + count <= usable();",
        "return used() + count <= size();",
        file="lib/shared/filling_array.h",
        units=["tests/unit/shared/filling_array_test.cc"],
    ),
    shared(
        "what a worker has used of a grant is forgotten in the window that runs",
        "GrantTable.IdleKeysAreForgottenAndTheOthersGoOnAsIfNothingHadHappened",
        "if (used_in(used[running.half], running) != 0 || used_in(used[next.half], next) != 0)",
        "static_cast<void>(next);\n    if (used_in(used[running.half], running) != 0)",
        file="lib/shared/grant_table.cc",
    ),
    shared(
        "a key that stays is put where it is not looked for",
        "GrantTable.IdleKeysAreForgottenAndTheOthersGoOnAsIfNothingHadHappened",
        "while (at < last && is_full(lines_[at])) ++at;",
        "at = last;",
        file="lib/shared/grant_table.cc",
    ),
    shared(
        "where the kernel has no memory a new key finds no place, not even a closed one",
        "SpanTableMemory.WhereTheKernelHasNoneNewKeysTakeClosedPlacesOrNoneUntilItHasSome",
        "return has_room_for_entry() ? place_at(at, taken) : closed;",
        "return has_room_for_entry() ? place_at(at, taken) : nowhere;",
    ),
    worker(
        "a grant goes on beside the credit that was made of it",
        "Grant.IsNotUsedBesideTheCreditThatWasMadeOfIt",
        "const std::uint32_t used = grants_.close(granted, window);",
        "const std::uint32_t used = grants_.used(granted, window);",
    ),
    worker(
        "what is lent is counted with the entry too",
        "Grant.FilledUpAndTooSmallForARequestGoesToItsEntryAgain",
        "entry.drawn -= credit;\n    entry.lent",
        "entry.lent",
        file="lib/shared/span_table.h",
        units=WORKER + ["lib/shared/span_table.cc"],
    ),
    worker(
        "what an entry has no field for is lent and not counted",
        "Grant.IsFilledUpHoweverMuchASpanHasLent",
        "entry.drawn += std::exchange(in_span, SpanEntry::most_lent / 2) - SpanEntry::most_lent / 2;",
        "in_span = SpanEntry::most_lent / 2;",
        file="lib/shared/span_table.h",
        units=WORKER + ["lib/shared/span_table.cc"],
    ),
    worker(
        "an entry that has lent much lends no more",
        "Grant.IsFilledUpHoweverMuchASpanHasLent",
        "const std::uint32_t room = grant.most - left_of(grant, granted);",
        "if (table_->entry(place).lent > SpanEntry::most_lent - grant.most) return;\n  const std::uint32_t room = grant.most - left_of(grant, granted);",
    ),
    worker(
        "the last of an allowance is lent",
        "Grant.IsNotFilledUpWhereTheAllowanceGoesToItsEnd",
        "ready < grant.most / 2 || is_ungranted(key)",
        "ready == 0 || is_ungranted(key)",
    ),
    worker(
        "what was lent stays where no request of its weight finds it",
        "Grant.FilledUpAndTooSmallForARequestGoesToItsEntryAgain",
        "if (table_->credit(touched.place) < weight && touched.entry->lent > 0) use_up_grant(touched.place, key);",
        "static_cast<void>(key);",
    ),
    worker(
        "what was lent is lost where grants end within the window",
        "Grant.WhatIsLentIsNotLostWhereASmallerShareEndsGrants",
        ": table_->entry(place).lent > 0 ?",
        ": table_->entry(place).lent > SpanEntry::most_lent ?",
    ),
    worker(
        "what is left of a grant that was filled up is not told",
        "Grant.TellsWhatRemainsWhereverItIsKept",
        "credit += left_of(rule_grants_[planned.rule], lent);",
        "static_cast<void>(lent);",
    ),
    worker(
        "credit beside a grant is not told",
        "Grant.TellsWhatRemainsWhereverItIsKept",
        "(drew ? table_->credit(entry) : 0)",
        "0 * drew",
    ),
    worker(
        "a burst's keys are not filled up",
        "Grant.OfAKeyInABurstIsFilledUpToo",
        "else if (lends)\n      lend(lines",
        "else if (false)\n      lend(lines",
    ),
    shared(
        "what was lent in the span that runs makes nonsense of a count",
        "GrantTable.WhatIsLentBeforeTheSpansCountIsTakenIsCountedWithTheNext",
        "if (count < before) continue;",
        "",
        file="lib/shared/grant_table.h",
        units=["tests/unit/shared/grant_table_test.cc"],
    ),
    shared(
        "what has been lent since is counted twice",
        "GrantTable.WhatIsLentBeforeTheSpansCountIsTakenIsCountedWithTheNext",
        "seen = of_window(complete ? now : before - lent, window);",
        "seen = of_window(now, window);",
        file="lib/shared/grant_table.cc",
    ),
    whole(
        "what a span has lent is forgotten when it is drained",
        "Grants.AKeyFarAboveItsGrantIsCountedExactly",
        "key.lent > 0 ? parts_.grants[index]->take_lent(",
        "false ? parts_.grants[index]->take_lent(",
        file="lib/control/controller.cc",
    ),
    plain_burst(
        "what a burst is to take has been lent before it takes it",
        "SeveralRulesInPlainBursts.AdmitNoMoreThanAnyLimitWhereverTheirKeysAreCounted",
        "[&](std::size_t at) { take_from(column, at, column.weight); });",
        "[&](std::size_t at) { take_from(column, at, column.weight), lend(table_->lines().place_of("
        "*reinterpret_cast<const std::uint32_t*>(column.words[at])), column.hashes[at], column.grant); });",
    ),
    worker(
        "a window's grants are written over before they have been seen",
        "Grant.OfAWindowIsNotLostWhenTheWorkerMissesSome",
        "if (!std::exchange(renewed, true)) window = GrantWindow(++turn);",
        "window = GrantWindow(static_cast<std::uint32_t>(running));",
    ),
    worker(
        "a window that the clock comes back to is granted again",
        "Grant.OfAWindowThatTheClockComesBackToIsNotGivenTwice",
        "if (running <= latest) since = std::max(since, running + 1);",
        "",
    ),
    worker(
        "a grant is used in a window that is over",
        "Grant.IsNotUsedInAWindowThatIsOver",
        "clock.holds = !left_alone && clock.number == running && running >= clock.since;",
        "clock.holds = !left_alone && running >= clock.since;",
    ),
    worker(
        "grants are used while idle keys are forgotten",
        "Grant.IsLeftAloneWhileIdleKeysAreForgottenAndGoesOnAfterwards",
        "clock.holds = !left_alone && clock.number == running && running >= clock.since;",
        "clock.holds = clock.number == running && running >= clock.since;",
    ),
    worker(
        "a key that was refused is admitted out of grants before that is judged",
        "Grant.OfAKeyThatAWorkerHasRefusedIsNotUsedUntilThatIsJudged",
        "refused_ = publication_->refused | refused_before_",
        "refused_ = refused_before_",
    ),
    worker(
        "a request that another rule refuses uses its grant",
        "Grant.OfNoRuleIsUsedForARequestThatAnotherRuleRefuses",
        "if (refused && here.grant != GrantTable::nowhere) {",
        "if (false) {",
    ),
    whole(
        "who is refused what others were granted is taken to have exceeded the limit",
        "Grants.ABurstBelowTheLimitRefusesNothingInTheNextWindow",
        "if (entry->refused + weight <= reserve - own) return;",
        "static_cast<void>(own);",
        file="lib/dataplane/worker_core.cc",
    ),
    worker(
        "what is granted may be drawn too",
        "Grant.AllWorkersTogetherNeverAdmitMoreThanTheLimit",
        "return allowance - std::min(reserve_of(state, rule, window, number), allowance / 2);",
        "return allowance;",
        file="lib/shared/publication.h",
        units=WORKER,
    ),
    whole(
        "the clock comes back to a window, and all is granted again",
        "Grants.AWindowThatTheClockReturnsToGrantsNothingAnew",
        "if (parts_.pools[window].running_number() <= begun_[window]) {",
        "if (false) {",
        file="lib/control/controller.cc",
    ),
    worker(
        "a table that was drained meanwhile is taken for the same",
        "Grants.AWorkerThatWasAwayHasItsGrantAnew",
        "std::exchange(table_, assigned) != assigned || table_->grant_turns.empty();",
        "std::exchange(table_, assigned) != assigned;",
        program="property",
    ),
    # Buckets, logs and windows in the worker's hands.
    worker(
        "a bucket is full again after its window has turned",
        "Worker/Bucket.IsNotFullAgainAfterItsWindowHasTurned/token",
        "BucketCell(cell).take_over(ended == nullptr ? nullptr : ended->claim(key, index_).cell, terms.bucket,",
        "BucketCell(cell).take_over(nullptr, terms.bucket,",
    ),
    worker(
        "a bucket that has moved to the new window can still be drawn from in the old one",
        "Worker/Bucket.AWorkerLeftInTheOldWindowFollowsTheBucketToTheNewOne/token",
        "ended->drawn.fetch_or(closed, std::memory_order_relaxed);",
        "ended->drawn.load(std::memory_order_relaxed);",
        file="lib/shared/bucket_cell.h",
        units=WORKER,
    ),
    worker(
        "the price of a token is ignored",
        "Worker/Bucket.AtFourTimesThePriceAQuarterPasses/leaky",
        "const TokenPrice price = touched.terms.factor;",
        "const TokenPrice price = full_price;",
    ),
    worker(
        "tokens drawn for a request that another rule refuses are given back and kept as well",
        "Worker/EveryAlgorithm.AChildIsNotChargedForWhatItsParentRefuses/token_bucket",
        "    if (!touched.direct) table_->drop_credit(touched.place, touched.drawn);",
        "",
    ),
    worker(
        "a log remembers a request that another rule refuses",
        "Worker/EveryAlgorithm.AParentIsNotChargedForWhatItsChildRefuses/sliding_log",
        "if (touched.drawn == 0) return;",
        "if (touched.drawn == 0 || terms.algorithm == Algorithm::sliding_log) return;",
    ),
    worker(
        "a log begins anew with each window",
        "SlidingLogWorker.NeverAdmitsMoreThanTheLimitInAnyIntervalAcrossWindows",
        "terms.logs->take_over(cell, ended == nullptr ? nullptr : ended->claim(key, index_).cell, spare_log_);",
        "terms.logs->take_over(cell, nullptr, spare_log_);",
    ),
    worker(
        "what was drawn in a sliding window's last span is forgotten until it has been judged",
        "SlidingWindowWorker.WhatWasDrawnInTheSpanBeforeIsTakenOffUntilItHasBeenJudged",
        "terms.allowance -= std::min(terms.allowance, before->drawn.load(std::memory_order_relaxed));",
        "(void)before;",
    ),
    worker(
        "shedding is on or off",
        "ShedWorker.AdmitsTheFractionToWithinOneRequestAtAnyTime",
        "return static_cast<unsigned __int128>(admitted + weight) > due >> 32;",
        "return due >> 32 > 0 && fraction < admit_all / 2;",
    ),
    worker(
        "shedding rounds every key's first request down",
        "ShedWorker.OfKeysWithOneRequestEachTheFractionPasses",
        "static_cast<unsigned __int128>(weight) * phase;",
        "static_cast<unsigned __int128>(phase & 0);",
    ),
    worker(
        "looking at a key costs a request",
        "Worker/EveryAlgorithm.LookingTakesNothing/fixed_window",
        "if (weight == 0) return peek(planned.keys[0], key_bytes_.bytes(), now);",
        "if (weight == 0) weight = 1;",
    ),
    worker(
        "a cell gives one more than the allowance",
        "StrictWorker.AdmitsWhatIsLeasedAndNothingOfItself",
        "if (remains < need) return 0;",
        "if (remains + 1 < need) return 0;",
        file="lib/shared/allowance_pool.cc",
    ),
    worker(
        "a key without room in the table draws on its lease uncounted",
        "StrictWorker.AKeyThatFindsNoRoomInTheTableDrawsNothingOnItsLease",
        "return touched.entry != nullptr && draw_window(touched, planned.key, weight);",
        "return draw_window(touched, planned.key, weight);",
    ),
    # Shares of the demand.
    engine(
        "the limit is not divided among nodes",
        "FixedWindow.UnderOverloadANodeHasItsShareOfTheLimit",
        "const double part = key.detail.correction * key.share() * static_cast<double>(limit);",
        "const double part = key.detail.correction * static_cast<double>(limit);",
        file="lib/engine/quota.cc",
    ),
    engine(
        "a few counts are believed at once",
        "DemandShare.AFewCountsMoveItLittleAndManyMoveItAllTheWay",
        "share_ = (static_cast<double>(own) + prior * share_) / (sum + prior);",
        "share_ = (static_cast<double>(own) + share_) / (sum + 1);",
        file="lib/engine/demand.h",
        units=["tests/unit/engine/demand_test.cc"],
    ),
    engine(
        "a load that has moved away is believed in for long",
        "DemandShare.ALoadThatHasMovedAwayOverrulesWhatWasBelieved",
        "prior /= forgets;",
        "prior /= 1;",
        file="lib/engine/demand.h",
        units=["tests/unit/engine/demand_test.cc"],
    ),
    engine(
        "heartbeats are not counted",
        "Members.AreThoseWhoseHeartbeatIsInThePeriodThatIsOver",
        "std::clamp<std::uint64_t>(reply.total + (absent ? 1 : 0), 1, 1U << 20)",
        "std::clamp<std::uint64_t>(reply.total + (absent ? 1 : 0), 1, 1)",
    ),
    engine(
        "unknown keys have the whole limit on each node while the store is away",
        "Default.IsTheWholeLimitWhileTheStoreTellsOfOthersAndAnEvenPartWhileItIsAway",
        "(alone(rule, cluster) && rule.by_shares());",
        "(alone(rule, cluster) && !rule.by_shares());",
        file="lib/engine/quota.cc",
    ),
    engine(
        "what others refused is taken off the limit",
        "FixedWindow.WhatOthersRefuseIsDemandButNotTakenOffTheLimit",
        "SharedCount& shared = reply.use == CounterUse::refused ? detail.refused[running ? 0 : 1] : counted;",
        "SharedCount& shared = counted;",
    ),
    engine(
        "what the shares got wrong is made worse in the next interval",
        "FixedWindow.WhatTheSharesGotWrongIsMadeGoodInTheNextIntervals",
        "(1 + correction_gain * std::clamp(error, least, 0.5))",
        "(1 - correction_gain * std::clamp(error, least, 0.5))",
    ),
    engine(
        "others' counts of a key without detail are not noticed",
        "Detail.ItHasOneFromTheFirstAnswerOnThatTellsOfOthers",
        "if (reply.total != past.alone[running ? 0 : 1] + reply.delta) return false;",
        "",
    ),
    engine(
        "what an ended interval came to is not taken in where the key had no detail",
        "Detail.OrFromTheReadingOfAnIntervalThatOthersCountedInLater",
        "    past.reading = false;\n    begin_reading(slot, reply.ordinal);",
        "    past.reading = false;",
    ),
    engine(
        "a key near its limit has no detail either",
        "Detail.OrWhenItComesNearItsLimitUntilItIsFarAgain",
        "  return is_far(rule, slot) &&\n         (past.first_nodes == 1",
        "  return (past.first_nodes == 1",
    ),
    engine(
        "an interval without counts pays no debt",
        "Debt.IsPaidByIntervalsWithoutAnyRequestToo",
        "if (last_counted(slot) < next - 1) detail.debt -=",
        "if (last_counted(slot) < next - 99) detail.debt -=",
    ),
    engine(
        "a debt is forgotten",
        "Debt.WhatWasAdmittedOverTheLimitIsTakenOffTheNextInterval",
        "return limit - std::min(limit, key.debt);",
        "return limit - std::min(limit, key.debt & 0);",
        file="lib/engine/rule_state.h",
        units=ENGINE_AND_QUOTA,
    ),
    # Sliding window, buckets, shedding.
    engine(
        "a sliding window forgets its newest span",
        "SlidingWindow.ASpansCountStaysTakenOffUntilItIsNSpansOld",
        "if (span.number < running && span.number > running - rule.spans) {",
        "if (span.number < running - 1 && span.number > running - rule.spans) {",
        file="lib/engine/quota.cc",
    ),
    engine(
        "a sliding window forgets its oldest span",
        "SlidingWindow.EachSpanLeavesByItself",
        "if (span.number < running && span.number > running - rule.spans) {",
        "if (span.number < running && span.number > running - rule.spans + 1) {",
        file="lib/engine/quota.cc",
    ),
    engine(
        "a sliding window holds what left it when the wall clock was set",
        "SlidingWindow.WhatItHoldsIsAsOldAsItWasWhenTheWallClockIsSet",
        "if (rule.algorithm != Algorithm::sliding_window) return;",
        "return;",
    ),
    engine(
        "a bucket is charged with what others admitted and priced by its share as well",
        "BucketRule.UnderOverloadATokenCostsTheInverseOfTheShareAndOthersAreChargedNoMore",
        "else if (detail.others_admitted > 0 && detail.price == 0)",
        "else if (detail.others_admitted > 0)",
    ),
    engine(
        "tokens that became cheaper are not scaled",
        "BucketRule.WhenItsShareGrowsWhatTheNodeHasSavedUpIsScaledToTheNewPrice",
        "if (before != 0 && before != now)",
        "if (before == 0 && before != now)",
    ),
    engine(
        "a bucket is warm from the start",
        "Warmup.AColdBucketsTokenCostsThreeAndAWarmOnesOne",
        "return key.cold_permits <= half ?",
        "return key.cold_permits <= 2 * half ?",
        file="lib/engine/quota.cc",
    ),
    engine(
        "shedding forgets the others' demand",
        "ShedRule.AdmitsAllBelowTheLimitAndTheLimitsPartOfTheDemandAboveIt",
        "return fraction_of(key.detail.correction * limit, key.detail.demand.per_interval());",
        "return fraction_of(key.detail.correction * limit, key.share() * key.detail.demand.per_interval());",
        file="lib/engine/quota.cc",
    ),
    # Leases.
    engine(
        "what a claim got beyond the limit is kept",
        "Strict.ExcessOfAClaimGoesBackToTheStore",
        "granted += claim - beyond;",
        "granted += claim;",
        file="lib/engine/lease.h",
        units=ENGINE,
    ),
    engine(
        "a lowered lease is given back before workers have taken it up",
        "Strict.WhatAKeyDoesNotUseGoesBackOnceAllWorkersHaveHeardOfIt",
        "if (lease.lowering && all_passed) lease.lowered_everywhere();",
        "if (lease.lowering) lease.lowered_everywhere();",
    ),
    engine(
        "what is left of a lease when its interval has ended is stranded",
        "Strict.WhenTheIntervalHasEndedTheStoreHoldsExactlyWhatWasAdmitted",
        "void close() noexcept { keep(admitted); }",
        "void close() noexcept { keep(granted); }",
        file="lib/engine/lease.h",
        units=ENGINE,
    ),
    engine(
        "a lease is good for the next interval too",
        "Strict.ALeaseHoldsInItsOwnIntervalOnly",
        "leases.running.held && leases.running.ordinal == ordinal ",
        "leases.running.held && leases.running.ordinal <= ordinal ",
        file="lib/engine/quota.cc",
    ),
    engine(
        "a claim is repeated while it is unanswered",
        "Strict.AsksForNoMoreWhileAClaimIsUnanswered",
        "if (lease.asked == 0 && !lease.lowering) {",
        "if (!lease.lowering) {",
    ),
    # Who sprays keys.
    shared(
        "a line's generation is taken for a key's tag",
        "Of/LaneSearches.FindEveryKeyInItsHomeLineWhateverItsLane/portable",
        "{lanes.of_seven(),",
        "{lanes,",
        file="lib/shared/lane_search.cc",
    ),
    shared(
        "a burst's keys are found in lines of another publication",
        "Of/LaneSearches.FindNothingInALineOfAnotherGeneration/portable",
        "word_at(line + last * 4) == generation_}",
        "true}",
        file="lib/shared/lane_search.cc",
    ),
    shared(
        "a key that looks alike behind a line of another publication is taken for the key",
        "Of/LaneSearches.FindNothingInALineOfAnotherGeneration/portable",
        "return in.lanes.none() && word_at(",
        "return word_at(",
        file="lib/shared/lane_search.cc",
    ),
    shared(
        "of a pool's cells only those of the turn that ends are cleared",
        "Pool.WhatAStalledWorkerLeavesInAClearedCellIsGoneAfterTheNextTurn",
        "most_used_ = std::max(most_used_, static_cast<std::uint32_t>(number_of(taken)));",
        "most_used_ = static_cast<std::uint32_t>(number_of(taken));",
        file="lib/shared/allowance_pool.cc",
    ),
    shared(
        "a key is looked for in its home line only",
        "Of/LaneSearches.FindAKeyBehindItsHomeAsLongAsLinesAreFull/portable",
        "for (std::size_t more = probed; more > 0;",
        "for (std::size_t more = 1; more > 0;",
        file="lib/shared/lane_search_kernel.h",
        units=["lib/shared/lane_search.cc"],
    ),
    shared(
        "a grant of another window is used at a glance",
        "Of/LaneSearches.UseGrantsThatRunAndAreEnough/portable",
        "if (before - stamp > last) return false;",
        "if ((before & 0xfff) > last) return false;",
        file="lib/shared/lane_search_kernel.h",
        units=["lib/shared/lane_search.cc"],
    ),
    worker(
        "what weighs nothing takes nothing of a grant and passes",
        "Grant.DoesNotAnswerForWhatWeighsNothing",
        "const bool may = weight - 1 < grant.most && !",
        "const bool may = !",
    ),
    worker(
        "what weighs more than 32 bits tell is taken for its rest",
        "Keys.MayWeighMoreThanWhatIsAtHandCanTell",
        "if (lends || weight - 1 >= most) [[unlikely]] {",
        "if (lends) [[unlikely]] {",
    ),
    worker(
        "of a burst's keys others are looked at than those that have used up their grants",
        "Grant.OfABurstsKeysOnlyWhoHasUsedItUpIsLookedAt",
        "left[i] = left[still[i]];",
        "left[i] = still[i];",
    ),
    worker(
        "a burst uses at a glance the grant of a key that is to be looked at",
        "Grant.OfAKeyThatIsToBeLookedAtIsNoMoreUsedByBursts",
        "weight - 1 >= grant.most || any_ungranted_ || !grant.plain",
        "weight - 1 >= grant.most || !grant.plain",
    ),
    plain_burst(
        "a plain burst under several rules uses the grant of a key that is to be looked at",
        "Grant.OfAKeyThatIsToBeLookedAtIsNoMoreUsedByBursts",
        "|| (some_ungranted && is_ungranted(chosen.keys()[i]))",
        "",
        program="dataplane",
    ),
    worker(
        "a burst that has all it asks for reads the clock",
        "Keys.ThatHaveAllTheyAskForReadNoClockAndOthersReadItOnce",
        "if (run.left > 0) look_closely(run, now(), verdicts);",
        "const MonotonicTime at = now();\n  if (run.left > 0) look_closely(run, at, verdicts);",
    ),
    worker(
        "every burst reads the clock anew",
        "Keys.ThatHaveAllTheyAskForReadNoClockAndOthersReadItOnce",
        "now_ = std::exchange(read_, nullptr)();",
        "now_ = read_();",
        file="lib/dataplane/worker_core.h",
        units=WORKER,
    ),
    shared(
        "a new key takes a heavy one's place",
        "SprayedTable.AHeavyKeyKeepsItsPlaceAndItsNameHoweverManyLightOnesCome",
        "~(line.open | line.heavy)",
        "~line.open",
    ),
    shared(
        "the heavy keys are forgotten with the light ones",
        "SprayedTable.AHeavyKeyKeepsItsPlaceAndItsNameHoweverManyLightOnesCome",
        "    forget_light();\n  else",
        "    clear();\n  else",
    ),
    shared(
        "heavy is who weighs much",
        "SprayedTable.HeavyIsWhoUsedMuchOfHisLimitNotWhoWeighsMuch",
        "limits.empty() ? 1 : limits[key.rule]",
        "1",
    ),
    shared(
        "who was heavy once stays so",
        "SprayedTable.WhoWasHeavyAndStayedAwayASpanGivesWay",
        "for (const std::uint32_t number : heavy_) line_of(places_[number]).heavy = 0;",
        "",
    ),
    shared(
        "among many keys a table forgets who is heavy",
        "SprayedTable.AmongManyKeysOnceBeingFullMakesItTakeCareForLong",
        "wary_ = wary_drains;",
        "wary_ = 1;",
    ),
    shared(
        "a worker goes on with cells from before the pool was cleared",
        "Pool.CellsThatAWorkerHadAtHandWhenItWasClearedAreOthersToGive",
        "mine.next < mine.end && mine.turn == found",
        "mine.next < mine.end",
        file="lib/shared/allowance_pool.cc",
    ),
    shared(
        "nobody is told that a key draws from a shared cell",
        "Pool.AKeyThatHasDrawnFromASharedCellNeverGetsOneOfItsOwn",
        "if (some && mine.turn != found) return in_vain;",
        "if (!some || mine.turn != found) return in_vain;",
        file="lib/shared/allowance_pool.cc",
    ),
    whole(
        "no cell is reserved for heavy keys",
        "SprayedFixedWindow.AHeavyKeyIsCountedExactlyAndGetsItsLimit",
        "    pool.claim(heavy[i].thing, AllowancePool::controller);",
        "",
        file="lib/control/controller.cc",
    ),
    whole(
        "a spray that pauses finds the cells unreserved again",
        "SprayedFixedWindow.AmongManyKeysASprayThatComesAndGoesGainsNothingByIt",
        "wary_[window] = wary_turns;",
        "wary_[window] = 1;",
        file="lib/control/controller.cc",
    ),
    # Bursts of requests.
    whole(
        "a rule's column is believed to be where the burst before had it",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/many_routes",
        "    columns_[plain_.rules[column].rule] = no_column;\n",
        "    ;\n",
        file="lib/dataplane/request_burst.cc",
    ),
    whole(
        "of a request's rules the one that its burst met first is asked first",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/rules_that_seldom_apply",
        "plan.keys[place - 1].rule > of_rule.rule; --place)",
        "false; --place)",
        file="lib/dataplane/request_burst.cc",
    ),
    whole(
        "all of a burst are told the rule of the first one",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/rules_that_seldom_apply",
        "const RuleIndex rule = first_rules_[at]; rule != told)",
        "const RuleIndex rule = first_rules_[at]; told == no_rule)",
        file="lib/dataplane/request_burst.cc",
    ),
    whole(
        "what remains is not told of what is ready",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/one_rule",
        "if (publication_ != nullptr && detail != Detail::full) {",
        "if (publication_ != nullptr) {",
        file="lib/dataplane/request_burst.cc",
    ),
    # Bursts of plain frames.
    classify(
        "a request behind another one passes with it",
        "InstructionSets.FindPlainRequestsOfTheUsualSpellingAndLength",
        "return ends != nullptr && (!found.complete || found.end == size);",
        "return ends != nullptr;",
        file="lib/classify/head_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc", "lib/classify/head_scan_sse2.cc"],
    ),
    classify(
        "a payload that ends as a head does is one head",
        "InstructionSets.FindNoPlainRequestWhereAnythingStandsBehindItsHead",
        "if (pairs != 0 || behind > ends + HeadLines::most) [[unlikely]]",
        "if (behind > ends + HeadLines::most) [[unlikely]]",
        file="lib/classify/head_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc", "lib/classify/head_scan_sse2.cc"],
    ),
    classify(
        "a head without sought fields that ends as one does is one head",
        "InstructionSets.FindNoPlainRequestWhereAnythingStandsBehindItsHead",
        "if (empty_lines.between(data + line_end, last_window)) [[unlikely]]",
        "if (false)",
        file="lib/classify/head_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc", "lib/classify/head_scan_sse2.cc"],
    ),
    classify(
        "a request's hash is another's where others stand among them",
        "InstructionSets.FindTheSameKeysWhereverInABurstARequestStands",
        "hashes[lowest(rest)] = found[count];",
        "hashes[count] = found[count];",
        file="lib/classify/text_hash_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc"],
    ),
    classify(
        "of a long text the first bytes alone are hashed",
        "InstructionSets.FindTheSameKeysWhereverInABurstARequestStands",
        "if (block->more != 0) [[unlikely]]",
        "if (false)",
        file="lib/classify/text_hash_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc"],
    ),
    classify(
        "a plain path may be percent-encoded",
        "InstructionSets.FindPlainRequestsOfTheUsualSpellingAndLength",
        "if (odd != 0 || (slashes & 1) == 0 || data[path_end] == '%') return 0;",
        "if (odd != 0 || (slashes & 1) == 0) return 0;",
        file="lib/classify/head_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc", "lib/classify/head_scan_sse2.cc"],
    ),
    classify(
        "the rest of a long name is not looked at",
        "InstructionSets.FindPlainRequestsOfTheUsualSpellingAndLength",
        "if (!equal(line + field.length - 7, field.last)) return false;",
        "",
        file="lib/classify/head_kernel.h",
        units=["lib/classify/head_scan_avx2.cc", "lib/classify/head_scan_avx512.cc", "lib/classify/head_scan_sse2.cc"],
    ),
    classify(
        "more rules than a request may have all count",
        "InstructionSets.TooManyRulesLeaveNoRequestPlain",
        "if (rules.size() > max_rules_per_request) return;",
        "if (rules.size() > max_rules_per_request + 1) return;",
    ),
    plain_burst(
        "what a rule of several has ready is taken though another one lacks it",
        "Limits/PlainBurst.AdmitsNoMoreThanTheLimitAndChargesAllRulesOrNone/1",
        "? column.weight <= left_of(column.grant, word)",
        "? true",
    ),
    plain_burst(
        "what is enough for one request is enough for a burst",
        "Limits/PlainBurst.AdmitsNoMoreThanTheLimitAndChargesAllRulesOrNone/1",
        "most += PlainKeys::most_frames * std::uint64_t{",
        "most += std::uint64_t{",
    ),
    plain_burst(
        "what is ready is taken by an earlier request of the burst, and by a later one again",
        "Limits/PlainBurst.AdmitsNoMoreThanTheLimitAndChargesAllRulesOrNone/0",
        ": SpanTable::Lines::has(*reinterpret_cast<std::uint32_t*>(word), column.weight);",
        ": true;",
    ),
    whole(
        "a request that has all it needs ready goes before one that waits for what both need",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/three_rules",
        "Order::kept);",
        "Order::any);",
        file="lib/dataplane/request_burst.cc",
    ),
    whole(
        "requests of a burst that weigh more are charged as the others",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/one_rule",
        "if (request.weight > 1) return 0;",
        "if (request.weight > 1) continue;",
        file="lib/dataplane/request_burst.cc",
    ),
    whole(
        "a rule more than a burst has room for is taken for another one",
        "Under/RequestBurst.IsDecidedAsOneRequestAfterTheOther/many_routes",
        "if (plain_.rule_count == plain_.rules.size()) return false;",
        "if (plain_.rule_count == plain_.rules.size()) return columns_[rule] = 0, true;",
        file="lib/dataplane/request_burst.cc",
    ),
    # The filter's first pass over a burst.
    burst_look(
        "of a frame's pieces only so many count as fit into a byte",
        "BurstLook.AFrameInPiecesIsOddHoweverPlainItsFirstOneIs",
        "Fields::differs(segment, 0x00010000, 0xffff0000)",
        "Fields::differs(segment, 0x00010000, 0x00ff0000)",
    ),
    burst_look(
        "the first fragment of a packet is taken for a whole one",
        "BurstLook.EveryOddityIsSeenInEveryPlace",
        "Fields::differs(fragment, 0x06000000, 0xff00ff3f)",
        "Fields::differs(fragment, 0x06000000, 0xff00ff1f)",
    ),
]
