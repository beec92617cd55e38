#include "cli/doctor/nft_rules.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

using Rules = std::vector<std::string>;

std::string chain(const std::string& head, const std::string& name, const std::string& more) {
  return R"({"chain": {)" + head + R"(, "name": ")" + name + "\"" + more + "}}";
}
std::string rule(const std::string& head, const std::string& name, const std::string& statements) {
  return R"({"rule": {)" + head + R"(, "chain": ")" + name + R"(", "expr": [)" + statements + "]}}";
}
std::string ruleset(const Rules& objects) {
  std::string out = R"({"nftables": [{"metainfo": {"json_schema_version": 1}})";
  for (const std::string& each : objects) out += ", " + each;
  return out + "]}";
}

const std::string inet = R"("family": "inet", "table": "filter")";
const std::string hooked = R"(, "type": "filter", "hook": "input", "prio": 0, "policy": )";
const NftChain input{"inet", "filter", "input"};

// As nft 1.0.6 prints them.
std::string match(const std::string& op, const std::string& left, const std::string& right) {
  return R"({"match": {"op": ")" + op + R"(", "left": )" + left + R"(, "right": )" + right + "}}, ";
}
const std::string dport = R"({"payload": {"protocol": "tcp", "field": "dport"}})";
const std::string saddr = R"({"payload": {"protocol": "ip", "field": "saddr"}})";
const std::string state = R"({"ct": {"key": "state"}})";
const std::string accept = R"({"accept": null})";
std::string meta(const std::string& key) { return R"({"meta": {"key": ")" + key + "\"}}"; }
std::string opens(const std::string& port) { return match("==", dport, port) + accept; }

// A table whose input chain drops what none of these rules settles.
NftRuleset dropping(const Rules& statements, Rules objects = {}) {
  objects.push_back(chain(inet, "input", hooked + "\"drop\""));
  for (const std::string& each : statements) objects.push_back(rule(inet, "input", each));
  auto parsed = NftRuleset::parse(ruleset(objects));
  EXPECT_TRUE(parsed.ok());
  return *parsed;
}

TEST(NftRules, AChainThatDropsClosesEveryPortThatNoRuleOpens) {
  const NftRuleset none = dropping({});
  EXPECT_TRUE(none.drops());
  EXPECT_EQ(none.closes(11'500), input);
  const NftRuleset some = dropping({
      match("in", state, R"(["established", "related"])") + accept,
      match("in", state, "\"invalid\"") + R"({"drop": null})",
      match("==", meta("iif"), "\"lo\"") + accept,
      match("==", meta("iifname"), "\"lo\"") + accept,
      match("==", meta("l4proto"), "\"icmp\"") + accept,
      match("==", R"({"payload": {"protocol": "ip", "field": "protocol"}})", "\"udp\"") + accept,
      match("==", R"({"payload": {"protocol": "udp", "field": "dport"}})", "11500") + accept,
      match("==", dport, "22") + R"({"counter": {"packets": 0, "bytes": 0}}, )" + accept,
      match("==", dport, R"({"set": [80, {"range": [8000, 8010]}]})") +
          match("in", state, "\"new\"") + accept,
      match("==", dport, "25") + R"({"drop": null})",
      opens("25"),
      match("!=", meta("l4proto"), "\"udp\"") + match("!=", dport, R"({"range": [0, 59999]})") +
          accept,
      R"({"log": {"prefix": "dropped "}}, {"counter": {"packets": 0, "bytes": 0}})",
  });
  for (const std::uint16_t port : {11'500, 23, 79, 81, 7999, 8011, 25, 59'999}) {
    EXPECT_EQ(some.closes(port), input) << port;
  }
  for (const std::uint16_t port : {22, 80, 8000, 8005, 8010, 60'000, 65'535}) {
    EXPECT_FALSE(some.closes(port)) << port;
  }
}

TEST(NftRules, NamedSetsMapsAndOtherChainsAreFollowed) {
  const NftRuleset rules = dropping(
      {
          match("==", dport, "\"@opened\"") + accept,
          R"({"vmap": {"key": )" + state + R"(, "data": {"set": [["invalid", {"drop": null}], )" +
              R"(["established", {"accept": null}]]}}})",
          R"({"vmap": {"key": )" + dport + R"(, "data": {"set": [[26, {"accept": null}], )" +
              R"([27, {"jump": {"target": "extra"}}]]}}})",
          match("==", meta("l4proto"), "\"tcp\"") + R"({"jump": {"target": "extra"}})",
          R"({"goto": {"target": "end"}})",
          opens("30"),
      },
      {R"({"set": {)" + inet + R"(, "name": "opened", "type": "inet_service", "elem": )" +
           R"([443, {"range": [12000, 12100]}, {"elem": {"val": 444, "counter": null}}]}})",
       chain(inet, "extra", ""), rule(inet, "extra", opens("28")),
       rule(inet, "extra", R"({"return": null})"), rule(inet, "extra", opens("29")),
       chain(inet, "end", ""), rule(inet, "end", R"({"jump": {"target": "end"}})")});
  for (const std::uint16_t port : {443, 444, 12'050, 26, 28}) {
    EXPECT_FALSE(rules.closes(port)) << port;
  }
  for (const std::uint16_t port : {442, 11'999, 12'101, 27, 29, 30}) {
    EXPECT_EQ(rules.closes(port), input) << port;
  }
}

// Whoever opened a port to some of the others is not told to open it to all.
TEST(NftRules, WhatDependsOnMoreThanThePortMayLetSomebodyIn) {
  const std::string lan = R"({"prefix": {"addr": "192.168.1.0", "len": 24}})";
  for (const std::string& each :
       {match("==", saddr, lan) + opens("11501"), match("==", saddr, lan) + accept,
        match("==", meta("iifname"), "\"br-lan\"") + opens("11501"),
        match("==", dport, "11501") + R"({"limit": {"rate": 5, "per": "second"}}, )" + accept,
        R"({"xt": null}, )" + accept, std::string(R"({"queue": {"num": 1}})"),
        R"({"vmap": {"key": )" + dport + R"(, "data": "@verdicts"}})",
        match("==", dport, "\"@unknown\"") + accept}) {
    EXPECT_FALSE(dropping({each}).closes(11'501)) << each;
  }
  EXPECT_EQ(dropping({match("==", saddr, lan) + opens("22")}).closes(11'501), input);
  EXPECT_EQ(dropping({match("==", saddr, lan) + R"({"drop": null})"}).closes(11'501), input);
  EXPECT_FALSE(dropping({match("==", saddr, lan) + R"({"drop": null})", accept}).closes(11'501));
}

TEST(NftRules, AnswersToWhatThisMachineDialledOpenNothing) {
  const std::string sport = R"({"payload": {"protocol": "tcp", "field": "sport"}})";
  EXPECT_EQ(dropping({match("==", sport, "11501") + accept}).closes(11'503), input);
  const std::string any = R"({"range": [1024, 65535]})";
  EXPECT_FALSE(dropping({match("==", sport, any) + accept}).closes(11'503));
  EXPECT_FALSE(dropping({match("==", sport, "40000") + accept}).closes(11'503)) << "perhaps";
}

TEST(NftRules, EveryChainThatSeesWhatComesInHasItsSay) {
  const std::string ip = R"("family": "ip", "table": "filter")";
  const std::string ip6 = R"("family": "ip6", "table": "filter")";
  const auto rules = NftRuleset::parse(
      ruleset({chain(inet, "input", hooked + "\"accept\""), rule(inet, "input", accept),
               chain(ip6, "input", hooked + "\"drop\""),
               chain(inet, "forward",
                     R"(, "type": "filter", "hook": "forward", "prio": 0, "policy": "drop")"),
               chain(ip, "INPUT", hooked + "\"accept\""),
               rule(ip, "INPUT",
                    match("==", dport, "9999") + R"({"reject": {"type": "icmp", "expr": "x"}})")}));
  ASSERT_TRUE(rules.ok());
  EXPECT_TRUE(rules->drops());
  EXPECT_FALSE(rules->closes(11'500));
  EXPECT_EQ(rules->closes(9999), (NftChain{"ip", "filter", "INPUT"}));
  const auto open = NftRuleset::parse(ruleset({chain(inet, "input", hooked + "\"accept\"")}));
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE(open->drops());
}

// Chains that call each other twice each: as many ways as no machine could walk.
TEST(NftRules, ManyWaysEnd) {
  Rules objects;
  for (int i = 0; i < 16; ++i) {
    const std::string name = "c" + std::to_string(i);
    objects.push_back(chain(inet, name, ""));
    for (int twice = 0; twice < 16; ++twice) {
      objects.push_back(
          rule(inet, name, R"({"jump": {"target": "c)" + std::to_string(i + 1) + "\"}}"));
    }
  }
  EXPECT_FALSE(dropping({R"({"jump": {"target": "c0"}})"}, objects).closes(1)) << "not known";
}

TEST(NftRules, OtherTextsAreRefused) {
  for (const char* text : {"", "table inet filter {}", "{}", "[]", R"({"nftables": 1})", "\xff"}) {
    EXPECT_FALSE(NftRuleset::parse(text).ok()) << text;
  }
  EXPECT_FALSE(NftRuleset::parse(std::string(NftRuleset::kBytesMax + 1, ' ')).ok());
  for (const char* object :
       {"1", "null", R"({"chain": 1})", R"({"chain": {"family": 1}})", R"({"rule": []})",
        R"({"rule": {"family": "inet", "table": "t", "chain": "c", "expr": 1}})",
        R"({"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [1, {}, {"a": 1}]}})",
        R"({"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [{"match": []}]}})",
        R"({"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [{"jump": 1}]}})",
        R"({"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [{"vmap": null}]}})"}) {
    EXPECT_TRUE(NftRuleset::parse(ruleset({object})).ok()) << object;
  }
}

}  // namespace
}  // namespace hearth::cli
