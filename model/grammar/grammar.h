// Grammar: a set of texts, as a pushdown automaton over bytes. It masks the tokens of an answer
// (kernels/CANONICAL.md, 10a), so its encoded form is part of the proved function and travels with
// the sequence. Immutable and safe to share between threads.
//
// docs/grammar.md defines the sources: JSON's spacing and order, schema keywords, GBNF, and regular
// expressions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth::model {

struct GrammarSource {
  enum class Kind : std::uint8_t {
    kJsonSchema,  // the text of a JSON Schema, draft 2020-12 or 7
    kJsonObject,  // any JSON object; no text
    kGbnf,        // llama.cpp's notation; the answer is the rule `root`
    kRegex,       // the whole answer matches; ECMA-262 syntax without look-around and references
    kChoice,      // a JSON array of strings: the answer is one of them
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
};

// The pushdown automaton. Rules are deterministic automata whose edges read one byte or call a
// rule. A call is counted: it repeats its rule from `min` to `max` times.
class Grammar {
 public:
  static constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;
  static constexpr std::uint32_t kNoState = 0xFFFFFFFF;

  struct ByteEdge {
    std::uint8_t low = 0;  // both ends belong to the range
    std::uint8_t high = 0;
    std::uint32_t next = 0;
  };
  struct CallEdge {
    std::uint32_t start = 0;  // the first state of the rule
    std::uint32_t min = 1;
    std::uint32_t max = 1;  // kNoLimit: any number
    std::uint32_t next = 0;
  };
  struct State {
    std::uint32_t bytes = 0;  // index of the first edge; the next state's is the end
    std::uint32_t calls = 0;
    bool final = false;        // the rule may end here
    bool empty = false;        // it can end from here without a byte; derived
    std::uint32_t height = 0;  // fewest frames above its own in which the rule can end; derived
  };

  // Checks counts, ids and ranges, that no rule calls itself before it reads a byte, and that some
  // text exists. kInvalidInput names the fault. The form is canonical: parse() accepts only bytes
  // that encode() returns.
  static Result<std::shared_ptr<const Grammar>> parse(ByteSpan bytes);

  // At most limits::kGrammarBytes.
  const Bytes& bytes() const { return bytes_; }
  // blake2b over bytes().
  const Hash256& hash() const { return hash_; }

  // State 0 is where the answer begins. `states` has one entry more than there are states.
  const std::vector<State>& states() const { return states_; }
  const std::vector<ByteEdge>& byte_edges() const { return byte_edges_; }
  const std::vector<CallEdge>& call_edges() const { return call_edges_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(states_.size() - 1); }

 private:
  friend class GrammarReader;
  Grammar() = default;

  Bytes bytes_;
  Hash256 hash_;
  std::vector<State> states_;
  std::vector<ByteEdge> byte_edges_;
  std::vector<CallEdge> call_edges_;
};

// A byte that occurs in no text. In a grammar, it begins the bytes of a control token.
inline constexpr std::uint8_t kControlByte = 0xFF;
// The bytes that a grammar reads for this control token: kControlByte and the id, the highest byte
// first. `token` is at least 0.
std::string control_token_bytes(TokenId token);

// kInvalidInput: malformed or contradictory. kUnsupported: understood, but not expressible, or past
// a limit of base/limits.h. For schemas the message ends in the keyword and its JSON pointer, for
// GBNF and regular expressions in the place. Bounded in time and memory for every text.
Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source);

// Composes a grammar from parts: a tool call's syntax is literal text around JSON of a schema.
//
//   GrammarBuilder g;
//   auto call = g.sequence({g.literal("<tool_call>\n{\"name\": \"add\", \"arguments\": "),
//                           g.source({GrammarSource::Kind::kJsonSchema, parameters}),
//                           g.literal("}\n</tool_call>")});
//   TRY(auto grammar, g.build(g.repeat(call, 1, Grammar::kNoLimit)));
//
// The first error is kept, and build() returns it. For one thread.
class GrammarBuilder {
 public:
  // A part may be used several times, in several parts.
  using Part = std::uint32_t;

  GrammarBuilder();
  ~GrammarBuilder();
  GrammarBuilder(const GrammarBuilder&) = delete;
  GrammarBuilder& operator=(const GrammarBuilder&) = delete;

  Part literal(std::string_view text);
  // An error of the source is prefixed with `name` where one is given ("tool get_weather").
  Part source(const GrammarSource& source, std::string_view name = {});
  Part sequence(const std::vector<Part>& parts);
  Part alternatives(const std::vector<Part>& parts);  // at least one
  Part repeat(Part part, std::uint32_t min, std::uint32_t max);
  // Any UTF-8 text up to the first occurrence of `end`, and `end` itself; `end` must not be empty.
  Part until(std::string_view end);
  // This control token of the vocabulary; a text that spells it does not match.
  Part control(TokenId token);
  // Any UTF-8 text that holds none of these; with none given, any text.
  Part text_without(const std::vector<std::string>& literals);

  Result<std::shared_ptr<const Grammar>> build(Part root);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hearth::model
