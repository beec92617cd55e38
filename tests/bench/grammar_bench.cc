// Time of a grammar's mask and step a token, over a vocabulary of 152,000 tokens that is made here.
// Each answer walks at random; the first walks make the masks (cold), the later ones find them. It
// is the thread's processor time, so that what else runs on the machine is not measured.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "model/grammar/token_masks.h"

using namespace hearth;         // NOLINT
using namespace hearth::model;  // NOLINT

namespace {

// Bytes, then words, words with a space, numbers, runs of punctuation as in code, and lines of one
// character, which are the longest tokens of most models.
std::shared_ptr<const GrammarVocabulary> vocabulary() {
  std::mt19937 random(7);
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 1000; ++i) texts.push_back(std::to_string(i));
  for (const char character : std::string(" -=*#_/~\t\n")) {
    for (std::size_t length = 4; length <= 128; length *= 2) {
      texts.emplace_back(length, character);
    }
  }
  const std::string marks = "{}[]\":,.()<>=\n/ -_";
  for (int i = 0; i < 6000; ++i) {
    std::string text;
    for (std::size_t n = 2 + random() % 3; n > 0; --n) text += marks[random() % marks.size()];
    texts.push_back(text);
  }
  const std::string letters = "eeeeettttaaaooiinnsshhrrddlluummcwgfypbvkxjqz";
  while (texts.size() < 152'000) {
    std::string text;
    if (random() % 2 == 0) text += ' ';
    for (std::size_t n = 2 + random() % 9; n > 0; --n) text += letters[random() % letters.size()];
    if (random() % 20 == 0) text += "\xC3\xA9";
    texts.push_back(text);
  }
  texts.emplace_back();
  return GrammarVocabulary::build(std::move(texts), {152'000});
}

struct Case {
  const char* name;
  GrammarSource source;
};

const std::vector<Case>& cases() {
  using Kind = GrammarSource::Kind;
  static const std::vector<Case> all{
      {"person", {Kind::kJsonSchema, R"({"type":"object","properties":{"name":{"type":"string"},
        "age":{"type":"integer","minimum":0,"maximum":150},
        "email":{"type":"string","format":"email"},
        "tags":{"type":"array","items":{"type":"string"},"maxItems":8}},
        "required":["name","age","tags"],"additionalProperties":false})"}},
      {"tool call", {Kind::kJsonSchema, R"({"type":"object","properties":{"name":{"enum":[
        "get_weather",
        "search","send_mail"]},"arguments":{"type":"object","properties":{"city":{"type":"string"},
        "unit":{"enum":["C","F"]},"days":{"type":"integer"}},"required":["city"],
        "additionalProperties":false}},"required":["name","arguments"],
        "additionalProperties":false})"}},
      {"string of 200",
       {Kind::kJsonSchema, R"({"type":"object","properties":{"summary":{"type":"string",
        "maxLength":200}},"required":["summary"],"additionalProperties":false})"}},
      {"strings of 40",
       {Kind::kJsonSchema, R"({"type":"array","items":{"type":"object","properties":{
        "title":{"type":"string","maxLength":40},"by":{"type":"string","minLength":1,
        "maxLength":24}},"required":["title","by"],"additionalProperties":false}})"}},
      {"tree",
       {Kind::kJsonSchema, R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{
        "value":{"type":"number"},"kids":{"type":"array","items":{"$ref":"#/$defs/t"}}},
        "required":["value","kids"],"additionalProperties":false}}})"}},
      {"any object", {Kind::kJsonObject, ""}},
  };
  return all;
}

double microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void run(const Case& one, const std::shared_ptr<const GrammarVocabulary>& words) {
  const double begun = microseconds();
  const auto grammar = compile_grammar(one.source);
  const double compile = microseconds() - begun;
  if (!grammar.ok()) {
    std::printf("%s: %s\n", one.name, grammar.error().message.c_str());
    return;
  }
  TokenMasks masks(*grammar, words);
  std::mt19937 random(1);
  std::vector<double> warm;
  std::vector<double> cold;
  for (int answer = 0; answer < 60; ++answer) {
    TokenState state = masks.start();
    for (int step = 0; step < 120 && !state.over; ++step) {
      const double before = microseconds();
      const auto mask = masks.mask(state);
      const double masked = microseconds();
      // A random allowed token, found from a random place on.
      TokenId token = static_cast<TokenId>(random() % words->size());
      while (!masks.allows(*mask, token)) {
        token = static_cast<TokenId>((static_cast<std::uint32_t>(token) + 1) % words->size());
      }
      const double chosen = microseconds();
      masks.accept(state, token);
      const double end = microseconds();
      (answer < 30 ? cold : warm).push_back((masked - before) + (end - chosen));
    }
  }
  const auto report = [](std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (const double time : times) sum += time;
    std::printf(" mean %8.1f median %6.1f p99 %8.1f us |", sum / static_cast<double>(times.size()),
                times[times.size() / 2], times[times.size() * 99 / 100]);
  };
  std::printf("%-14s %5zu bytes, compiled in %6.0f us | first 30 answers:", one.name,
              (*grammar)->bytes().size(), compile);
  report(cold);
  std::printf(" next 30:");
  report(warm);
  std::printf("\n");
}

}  // namespace

int main() {
  const double begun = microseconds();
  const auto words = vocabulary();
  std::printf("a vocabulary of %u tokens, %zu nodes, made in %.0f ms\n", words->size(),
              words->nodes().size() - 1, (microseconds() - begun) * 1e-3);
  for (const Case& one : cases()) run(one, words);
  return 0;
}
