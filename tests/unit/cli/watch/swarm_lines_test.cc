#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"
#include "cli/terminal/table.h"
#include "cli/watch/watch.h"

namespace hearth::cli {
namespace {

client::NodeView node(const std::string& name, const std::string& state, std::uint32_t stage,
                      LayerRange layers) {
  client::NodeView out;
  out.name = name;
  out.state = state;
  out.isa = "avx2";
  out.threads = 2;
  out.placed = layers.size() > 0;
  out.stage = stage;
  out.layers = layers;
  out.weight_bytes = 36'000'000;
  out.rows_total = 1234;
  out.kv_tokens_used = 160;
  out.kv_tokens = 640;
  out.rows_per_second = 120.04;
  out.busy_ratio = 0.5;
  return out;
}

client::SwarmView serving() {
  client::SwarmView view;
  view.model = "tiny";
  view.layers = 20;
  view.model_bytes = 145'000'000;
  view.ready = true;
  view.stages_wanted = 2;
  view.running = 1;
  view.waiting = 3;
  view.tokens_per_second = 30.5;
  view.prompt_tokens_per_second = 200;
  view.nodes = {node("den", "serving", 0, {0, 10}), node("attic", "serving", 1, {10, 20})};
  return view;
}

client::SwarmView uncovered() {
  client::SwarmView view = serving();
  view.ready = false;
  view.missing = "no pipeline serves: 1 of 2 workers are registered";
  view.nodes = {node("den", "free", 0, {})};
  view.gaps = {{{10, 20}, 36'000'000, 95'000'000}};
  return view;
}

TEST(StatusLines, StandingStandsBesideEachNodeWhereALedgerNamesOne) {
  client::SwarmView view = serving();
  view.nodes.push_back(node("cellar", "free", 0, {}));
  view.nodes[0].standing = client::NodeView::Standing{"regular", 84, 1, false};
  view.nodes[1].standing = client::NodeView::Standing{"newcomer", 0, 0, true};
  for (const Lines& lines : {status_lines(view), top_lines(view, "api", "now")}) {
    const auto row = [&](const std::string& name) {
      for (const std::string& line : lines) {
        if (line.starts_with(name + " ")) return line;
      }
      return std::string();
    };
    EXPECT_TRUE(row("NODE").ends_with("  STANDING")) << row("NODE");
    EXPECT_TRUE(row("den").ends_with("  regular, 84 right, 1 fault")) << row("den");
    EXPECT_TRUE(row("attic").ends_with("  ended: it lied")) << row("attic");
    EXPECT_TRUE(row("cellar").ends_with("  -")) << row("cellar");
  }
}

TEST(StatusLines, OneOwnersMachinesInOnePipelineHaveNoStanding) {
  client::SwarmView view = serving();
  view.pipelines = 1;
  for (client::NodeView& node : view.nodes) {
    node.standing = client::NodeView::Standing{"probation", 0, 0, false};
  }
  view.audits = {1, 0, 1, 33, "no other pipeline with the same layer split serves"};
  const auto shown = [&](const char* word) {
    const Lines lines = status_lines(view);
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(word) != std::string::npos; });
  };
  EXPECT_FALSE(shown("STANDING"));
  EXPECT_FALSE(shown("33 windows wait"));
  EXPECT_TRUE(shown("1 window agrees, 0 differ, 1 was given up"));
  view.pipelines = 2;
  EXPECT_TRUE(shown("STANDING") && shown("33 windows wait"));
  view.pipelines = 1;
  view.nodes[0].owner = "ada";
  EXPECT_TRUE(shown("STANDING") && shown("33 windows wait"));
}

TEST(StatusLines, TheClusterIsNamed) {
  client::SwarmView view = serving();
  view.cluster = "ho\x1bme";
  EXPECT_EQ(status_lines(view)[0], "model   tiny  (20 layers, 145 MB)  in cluster ho\\x1bme");
}

TEST(StatusLines, DraftsAndTheMemoryOfADraftModel) {
  client::SwarmView view = serving();
  view.drafts = {{"grammar", 0, 0}, {"lookup", 496, 450}, {"model", 40, 12}};
  view.nodes[0].draft_bytes = 48'000'000;
  const Lines lines = status_lines(view);
  EXPECT_EQ(lines[3], "drafts  lookup 450 of 496 accepted, model 12 of 40 accepted");
  EXPECT_EQ(lines[4], "draft   den: 48.0 MB of memory for a draft model");
  view.drafts[1] = view.drafts[2] = {"model", 0, 0};
  view.nodes[0].draft_bytes = 0;
  for (const std::string& line : status_lines(view)) EXPECT_FALSE(line.starts_with("draft"));
}

TEST(StatusLines, WhoWasSentAwayLearnsHowToComeBack) {
  client::SwarmView view = serving();
  view.nodes[0].away = Away{true, 0, "hearth drain"};
  EXPECT_EQ(status_lines(view)[3], "away    den: to serve again, on its machine: hearth resume");
  view.nodes[0].away = Away{false, 0, "a game runs"};
  EXPECT_FALSE(status_lines(view)[3].starts_with("away"));
}

TEST(StatusLines, ALogThatFailedIsSaid) {
  client::SwarmView view = serving();
  view.ledger_fault = "no space\n left";
  const std::string line =
      "ledger  answers have no receipts until the server restarts: no space\\x0a left";
  EXPECT_EQ(status_lines(view)[3], line);
  EXPECT_EQ(top_lines(view, "api", "now")[2], line);
}

TEST(StatusLines, WhatTheServersMachineCanSpend) {
  client::SwarmView view = serving();
  view.credits = client::SwarmView::Credits{500, 0};
  EXPECT_EQ(status_lines(view)[3],
            "credits the server's machine has 500; all accounts: hearth ledger");
  view.credits->reserved = 20;
  EXPECT_EQ(status_lines(view)[3],
            "credits the server's machine has 500, of which 20 are reserved for running requests; "
            "all accounts: hearth ledger");
}

TEST(StatusLines, NodesRangesStatesAndRates) {
  EXPECT_EQ(status_lines(serving()),
            (Lines{"model   tiny  (20 layers, 145 MB)", "ready   yes",
                   "rates   200 tokens/s in, 30.5 out; 1 request running, 3 waiting",
                   "NODE   STATE    STAGE  LAYERS  ISA   THREADS  WEIGHTS  TOK/S  BUSY  ROWS",
                   "den    serving  1      0-9     avx2  2        36.0 MB  120    50%   1234",
                   "attic  serving  2      10-19   avx2  2        36.0 MB  120    50%   1234"}));
}

TEST(StatusLines, HowManyRequestsCanRunWhereEachKeepsAState) {
  client::SwarmView view = serving();
  view.running_most = 64;
  EXPECT_EQ(status_lines(view)[2],
            "rates   200 tokens/s in, 30.5 out; 1 request running of at most 64, 3 waiting");
}

TEST(StatusLines, ThePowerOfTheNodesThatTell) {
  client::SwarmView view = serving();
  EXPECT_EQ(status_lines(view)[3].substr(0, 4), "NODE");
  view.watts = 412.4;
  view.power_nodes = 2;
  EXPECT_EQ(status_lines(view)[3], "power   412 W of 2 nodes; 13.5 J a token");
  view.power_nodes = 1;
  view.tokens_per_second = 0.0;
  EXPECT_EQ(status_lines(view)[3], "power   412 W of 1 of 2 nodes");
}

TEST(StatusLines, TheRoomOfTheStageThatHasTheLeast) {
  client::SwarmView view = serving();
  EXPECT_NE(status_lines(view)[3].substr(0, 3), "kv ") << "nothing is cached";
  view.nodes[0].kv_tokens = 3'200;
  view.nodes[1].kv_tokens = 1'600;
  view.nodes[1].kv_tokens_used = 64;
  view.nodes[1].kv_tokens_kept = 320;
  EXPECT_EQ(status_lines(view)[3],
            "kv      64 of 1600 positions in use, 320 cached for prompts that begin alike");
}

TEST(StatusLines, WhoIsAwayUntilWhenAndWhy) {
  client::SwarmView view = serving();
  const std::string until = date_text(1'700'000'000);
  view.nodes[0].away = Away{true, 1'700'000'000, "hearth drain"};
  EXPECT_NE(status_lines(view)[4].find("serving, draining until " + until + " (hearth drain)  1 "),
            std::string::npos)
      << status_lines(view)[4];
  view.nodes[0] = node("den", "paused", 0, {});
  view.nodes[0].away = Away{false, 0, "a \x1b[2Jgame"};
  EXPECT_TRUE(status_lines(view)[4].starts_with("den    paused (a "));
  EXPECT_EQ(status_lines(view)[4].find('\x1b'), std::string::npos);
  view.nodes[0].away = Away{true, 1'700'000'000, ""};
  EXPECT_TRUE(status_lines(view)[4].starts_with("den    drained until " + until + "  "));
  EXPECT_NE(top_lines(view, "api", "now")[3].find("drained until"), std::string::npos);
}

TEST(StatusLines, WhoIsSaidToHaveSentWrongBytes) {
  client::SwarmView view = serving();
  view.accused = {{"den", 1, "tensor blk.0.attn_q.weight", false}, {"attic\x1b", 2, "x\x1b", true}};
  const Lines lines = status_lines(view);
  EXPECT_EQ(lines[3],
            "wrong   den: it sent wrong bytes of the model, as reported by 1 node (tensor "
            "blk.0.attn_q.weight); these nodes fetch elsewhere");
  EXPECT_NE(lines[4].find("reported by 2 nodes"), std::string::npos) << lines[4];
  EXPECT_NE(lines[4].find("no node fetches from it until it restarts"), std::string::npos);
  EXPECT_EQ(lines[4].find('\x1b'), std::string::npos);
  EXPECT_EQ(top_lines(view, "api", "now")[2], lines[3]);
}

TEST(StatusLines, WhatHasNoReceipts) {
  client::SwarmView view = serving();
  view.audits.unreceipted = 12;
  view.audits.unreceipted_by_key = {{"quiet", 2}, {"flood\x1b", 10}};
  view.nodes[0].unreceipted_windows = 1;
  view.nodes[0].unreceipted = "another build\x1b";
  const Lines lines = status_lines(view);
  EXPECT_EQ(lines[3],
            "missing 12 windows without a receipt since the server started: neither audited nor "
            "paid");
  EXPECT_TRUE(lines[4].starts_with("        most of them, 10, of API key: flood")) << lines[4];
  EXPECT_TRUE(lines[5].starts_with("missing den: no receipt for 1 window; another build"));
  EXPECT_EQ((lines[4] + lines[5]).find('\x1b'), std::string::npos);
}

TEST(StatusLines, AClockThatWasAheadAndADiskThatIsNearlyFull) {
  client::SwarmView view = serving();
  const std::size_t before = status_lines(view).size();
  view.ledger_ahead_seconds = 2;
  view.ledger_free_bytes = limits::kLogFreeBytes;
  EXPECT_EQ(status_lines(view).size(), before);
  view.ledger_ahead_seconds = 86'400;
  view.ledger_free_bytes = 5'000'000;
  const Lines lines = status_lines(view);
  EXPECT_TRUE(lines[3].starts_with("ledger  its time is 86400 s ahead")) << lines[3];
  EXPECT_NE(lines[4].find("5.0 MB left"), std::string::npos) << lines[4];
}

TEST(StatusLines, CoordinatorsOfOneStore) {
  client::SwarmView view = serving();
  view.store = {"postgresql://db/h", 3, "den\x1b", "10.0.0.1:1"};
  const Lines lines = status_lines(view);
  EXPECT_EQ(
      lines[3],
      "store   postgresql://db/h; the coordinator on den\\x1b (API 10.0.0.1:1) leads in epoch "
      "3; there is no standby");
}

TEST(StatusLines, WhatBecameOfAudits) {
  client::SwarmView view = serving();
  const std::size_t before = status_lines(view).size();
  view.audits.waiting = 2;
  EXPECT_EQ(status_lines(view).size(), before) << "nothing has come to an end yet";
  view.audits = {14, 1, 3, 2, "no node\x1b else"};
  const Lines lines = status_lines(view);
  ASSERT_EQ(lines.size(), before + 2);
  EXPECT_EQ(lines[3],
            "audits  since the server started: 14 windows agree, 1 differs, 3 were given up");
  EXPECT_TRUE(lines[4].starts_with("        2 windows wait: no node")) << lines[4];
  EXPECT_EQ(lines[4].find('\x1b'), std::string::npos);
  EXPECT_EQ(top_lines(view, "api", "now")[2], lines[3]);
  view.audits.open_disputes = 1;
  view.audits.ended_disputes = 2;
  EXPECT_EQ(status_lines(view)[4], "        disputes in the ledger: 1 open, 2 ended by a verdict");
  view.audits.unjudged_disputes = 3;
  EXPECT_EQ(status_lines(view)[4],
            "        disputes in the ledger: 1 open, 2 ended by a verdict, 3 ended without one");
  view.audits.referee_missed = 2;
  view.audits.why_referee_missed = "no room";
  EXPECT_EQ(status_lines(view)[6],
            "referee 2 windows drawn for this server's own referee not computed: no room");
}

TEST(StatusLines, WhoIsBarredWhyAndWhatToDo) {
  client::SwarmView view = serving();
  view.nodes[0].standing = client::NodeView::Standing{"probation", 3, 1, false, 0};
  view.nodes[0].barred = view.nodes[0].spare =
      "a verdict found it at fault (entry 7 of the ledger)";
  view.nodes[1].standing = client::NodeView::Standing{"newcomer", 0, 0, true, 2};
  view.nodes[1].barred = view.nodes[1].spare = "the ledger shows a fraud by it";
  for (const Lines& lines : {status_lines(view), top_lines(view, "api", "now")}) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    const auto has = [&all](const std::string& text) {
      return all.find(text) != std::string::npos;
    };
    const std::string first = view.nodes[0].name;
    const std::string second = view.nodes[1].name;
    EXPECT_TRUE(has("barred  " + first + ": a verdict found it at fault (entry 7 of the ledger)\n"))
        << all;
    EXPECT_TRUE(has("hearth doctor")) << all;
    EXPECT_TRUE(has(", quarantined")) << all;
    EXPECT_TRUE(has("barred  " + second + ": the ledger shows a fraud by it\n")) << all;
    EXPECT_TRUE(has("hearth nodes rm " + second)) << all;
    EXPECT_TRUE(has(", ended")) << all;
    EXPECT_TRUE(has("dispute " + second + " is involved in 2 open disputes")) << all;
    EXPECT_TRUE(has("hearth ledger " + second)) << all;
    EXPECT_FALSE(has("spare   ")) << "it is said once\n" << all;
  }
}

TEST(StatusLines, AnOwnerIsShownWhereOneIsNamed) {
  client::SwarmView view = serving();
  const auto row = [&view](std::size_t back) { return *(status_lines(view).rbegin() + back); };
  EXPECT_EQ(row(view.nodes.size()).find("OWNER"), std::string::npos);
  view.nodes[0].owner = "Ada";
  EXPECT_NE(row(view.nodes.size()).find("OWNER"), std::string::npos);
  EXPECT_NE(row(view.nodes.size() - 1).find("Ada"), std::string::npos);
}

TEST(StatusLines, WhyAModelIsNotCoveredAndWhatToAdd) {
  const Lines lines = status_lines(uncovered());
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[1], "ready   no");
  EXPECT_EQ(lines[3], "why     no pipeline serves: 1 of 2 workers are registered");
  EXPECT_EQ(
      lines[4],
      "        no node for layers 10-19: it needs 95.0 MB of memory at least, 36.0 MB of them "
      "for weights");
  EXPECT_EQ(lines[5], "add     1 worker, with: hearth worker --model tiny");
  EXPECT_EQ(lines[7], "den   free   -      -       avx2  2        -        120    50%   1234");
}

TEST(StatusLines, AClusterIsJoined) {
  client::SwarmView view = uncovered();
  view.joinable = true;
  const Lines lines = status_lines(view);
  EXPECT_EQ(lines[5], "add     1 worker, with: hearth join TOKEN");
  EXPECT_EQ(lines[6], "        on the machine to add; on the server's: hearth token create");
}

TEST(StatusLines, ANeedThatIsNotKnownIsNotShown) {
  client::SwarmView view = uncovered();
  view.gaps = {{{0, 10}, 0, 0}, {{10, 20}, 0, 0}};
  const Lines lines = status_lines(view);
  EXPECT_EQ(lines[4], "        no node for layers 0-9");
  EXPECT_EQ(lines[6], "add     2 workers, each with: hearth worker --model tiny");
}

TEST(StatusLines, SpareWorkersAreExplained) {
  client::SwarmView view = serving();
  view.nodes.push_back(node("nook", "free", 0, {}));
  EXPECT_EQ(status_lines(view)[3], "spare   1 worker; one more pipeline takes 2");
  view.nodes[0].ranks = 3;  // as all nodes of stages have
  EXPECT_EQ(status_lines(view)[3], "spare   1 worker; one more pipeline takes 6");
}

TEST(StatusLines, ACardAndWhatItsSensorsSay) {
  client::SwarmView view = serving();
  view.nodes[0].device = "cuda:0 RTX 4090";
  view.nodes[0].card.celsius = 61;
  view.nodes[1].device = "cuda:1 RTX 3060";
  for (Lines lines : {status_lines(view), top_lines(view, "http://x", "now")}) {
    ASSERT_GE(lines.size(), 3U);
    EXPECT_EQ(lines[lines.size() - 3], "NODE   CARD             SENSORS");
    EXPECT_EQ(lines[lines.size() - 2], "den    cuda:0 RTX 4090  61 C");
    EXPECT_EQ(lines[lines.size() - 1], "attic  cuda:1 RTX 3060  -");
  }
}

TEST(StatusLines, AServersWordsDoNotSteerTheTerminal) {
  client::SwarmView view = uncovered();
  view.model = view.missing = view.nodes[0].name = view.nodes[0].state = "\x1b[2J";
  view.nodes[0].device = "\x1b[2J";
  for (const Lines& lines : {status_lines(view), top_lines(view, "http://x", "now")}) {
    for (const std::string& line : lines) {
      EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    }
  }
}

TEST(TopLines, TheNodesAtWork) {
  EXPECT_EQ(top_lines(serving(), "http://127.0.0.1:11500", "14:03:22"),
            (Lines{"tiny at http://127.0.0.1:11500  ready  14:03:22",
                   "200 tokens/s in, 30.5 out; 1 request running, 3 waiting",
                   "NODE   STATE    LAYERS              TOK/S  BUSY              KV"
                   "                       WEIGHTS",
                   "den    serving  ▕█████     ▏ 0-9    120    ▕█████     ▏ 50%  ▕███       ▏ 25% "
                   "of 640  36.0 MB",
                   "attic  serving  ▕     █████▏ 10-19  120    ▕█████     ▏ 50%  ▕███       ▏ 25% "
                   "of 640  36.0 MB"}));
}

TEST(TopLines, WhatIsNotThereIsNotShown) {
  client::SwarmView view = uncovered();
  view.nodes[0].kv_tokens = 0;
  view.nodes[0].busy_ratio = 0.0;
  const Lines lines = top_lines(view, "http://x", "now");
  EXPECT_EQ(lines.front(), "tiny at http://x  not ready  now");
  EXPECT_EQ(lines.back(), "den   free   -       120    ▕          ▏ 0%  -   -");
}

}  // namespace
}  // namespace hearth::cli
