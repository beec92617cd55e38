#include "model/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/limits.h"
#include "model/jinja/cursor.h"
#include "model/jinja/expressions.h"
#include "model/jinja/symbol_table.h"

namespace hearth::model::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;
using Ends = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens)
      : in_(std::move(tokens)), expressions_(in_, symbols_) {}
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  Result<std::unique_ptr<const Program>> run() {
    auto program = std::make_unique<Program>();
    TRY(program->body, statements("", 1, {}));
    program->symbols = symbols_.take();
    return std::unique_ptr<const Program>(std::move(program));
  }

 private:
  // Reads up to and including the name of one of the end tags; the caller reads the rest of the
  // tag.
  Result<Body> statements(std::string_view construct, std::uint32_t line, Ends ends) {
    Body body;
    if (++depth_ > limits::kTemplateDepth) {
      return in_.fail(line, "statements are nested deeper than the limit of " +
                                std::to_string(limits::kTemplateDepth));
    }
    while (true) {
      const Token& token = in_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) break;
        return in_.fail(line, "'" + std::string(construct) + "' has no '" +
                                  std::string(*(ends.end() - 1)) + "'");
      }
      if (token.kind == TokenKind::kData) {
        StmtPtr stmt = make(StmtKind::kText, token.line);
        auto text = std::make_shared<Text>();
        text->bytes = in_.take().text;
        stmt->text = std::move(text);
        body.push_back(std::move(stmt));
        continue;
      }
      if (token.kind == TokenKind::kVariableBegin) {
        TRY(StmtPtr stmt, output());
        body.push_back(std::move(stmt));
        continue;
      }
      in_.take();  // '{%'
      const bool ended = std::any_of(ends.begin(), ends.end(),
                                     [this](std::string_view name) { return in_.at_name(name); });
      if (ended) break;
      TRY(StmtPtr stmt, statement());
      body.push_back(std::move(stmt));
    }
    --depth_;
    return body;
  }

  // After a tag: its end, then the body.
  Result<Body> block(std::string_view construct, std::uint32_t line, Ends ends) {
    in_.skip_operator(":");
    TRY_VOID(block_end());
    return statements(construct, line, ends);
  }

  // A body with its own names and output, and its end tag. No `break` or `continue` leaves it.
  Result<Body> captured_block(std::string_view construct, std::uint32_t line,
                              std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    ++scopes_;
    TRY(Body body, block(construct, line, {end}));
    --scopes_;
    loops_ = loops;
    in_.skip_name(end);
    TRY_VOID(block_end());
    return body;
  }

  Result<StmtPtr> statement() {
    const std::uint32_t line = in_.current().line;
    if (in_.current().kind != TokenKind::kName) {
      return in_.fail(line, "expected the name of a tag, found " + in_.describe_current());
    }
    const Token tag = in_.take();
    const std::string_view name = tag.text;
    if (name == "if") return if_statement(line);
    if (name == "for") return for_statement(line);
    if (name == "set") return set_statement(line);
    if (name == "macro") return macro_statement(line);
    if (name == "filter") return filter_statement(line);
    if (name == "generation") return generation_statement(line);
    if (name == "with") return with_statement(line);
    if (name == "call") return call_statement(line);
    if (name == "break") return jump_statement(StmtKind::kBreak, line);
    if (name == "continue") return jump_statement(StmtKind::kContinue, line);
    constexpr std::string_view kStray[] = {"elif",   "else",      "endif",    "endfor",  "endset",
                                           "endraw", "endfilter", "endmacro", "endwith", "endcall"};
    if (std::find(std::begin(kStray), std::end(kStray), name) != std::end(kStray)) {
      return in_.fail(line, "'" + tag.text + "' without a beginning");
    }
    for (const std::string_view known : {"include", "import", "from", "extends"}) {
      if (name == known) return unsupported_statement(tag, "");
    }
    if (name == "block") return unsupported_statement(tag, "endblock");
    if (name == "autoescape") return unsupported_statement(tag, "endautoescape");
    return in_.unsupported(line, "tag '" + tag.text + "'");
  }

  // A tag of Jinja outside of the subset, up to its end tag if it has one. It is an error only when
  // it is run.
  Result<StmtPtr> unsupported_statement(const Token& tag, std::string_view end) {
    StmtPtr stmt = make(StmtKind::kOutput, tag.line);
    stmt->expr = expressions_.unsupported(tag.line, "tag '" + tag.text + "'");
    const auto skip_rest = [this] {
      while (in_.current().kind != TokenKind::kBlockEnd && in_.current().kind != TokenKind::kEnd) {
        in_.take();
      }
    };
    skip_rest();
    if (!end.empty()) {
      TRY(stmt->body, block(tag.text, tag.line, {end}));
      skip_rest();
    }
    TRY_VOID(block_end());
    return stmt;
  }

  Result<StmtPtr> output() {
    StmtPtr stmt = make(StmtKind::kOutput, in_.take().line);
    TRY(stmt->expr, expressions_.tuple(true, ""));
    if (in_.current().kind != TokenKind::kVariableEnd) {
      return in_.fail(stmt->line, "expected '}}', found " + in_.describe_current());
    }
    in_.take();
    return stmt;
  }

  Result<StmtPtr> if_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kIf, line);
    while (true) {
      Branch branch;
      TRY(branch.condition, expressions_.tuple(false, ""));
      TRY(branch.body, block("if", line, {"elif", "else", "endif"}));
      stmt->branches.push_back(std::move(branch));
      if (in_.skip_name("elif")) continue;
      if (in_.skip_name("else")) {
        TRY(stmt->otherwise, block("if", line, {"endif"}));
      }
      in_.skip_name("endif");
      break;
    }
    TRY_VOID(block_end());
    return stmt;
  }

  Result<StmtPtr> for_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kFor, line);
    TRY(stmt->target, target(false, "in"));
    if (!in_.skip_name("in")) {
      return in_.fail(line, "'for' without 'in', found " + in_.describe_current());
    }
    TRY(stmt->expr, expressions_.tuple(false, "recursive"));
    if (in_.skip_name("if")) {
      TRY(stmt->condition, expressions_.expression());
    }
    in_.skip_name("recursive");  // only a call of 'loop' needs it
    ++loops_;
    ++scopes_;
    TRY(stmt->body, block("for", line, {"else", "endfor"}));
    --loops_;
    if (in_.skip_name("else")) {
      TRY(stmt->otherwise, block("for", line, {"endfor"}));
    }
    --scopes_;
    in_.skip_name("endfor");
    TRY_VOID(block_end());
    return stmt;
  }

  Result<StmtPtr> set_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kSet, line);
    TRY(stmt->target, target(true, ""));
    if (in_.skip_operator("=")) {
      TRY(stmt->expr, expressions_.tuple(true, ""));
      TRY_VOID(block_end());
    } else {
      stmt->kind = StmtKind::kSetBlock;
      TRY(stmt->expr, expressions_.filters(nullptr));
      TRY(stmt->body, captured_block("set", line, "endset"));
    }
    return stmt;
  }

  Result<StmtPtr> macro_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kMacro, line);
    stmt->macro = std::make_unique<Macro>();
    Macro& macro = *stmt->macro;
    TRY(macro.name, in_.expect_name("macro"));
    macro.symbol = symbols_.of(macro.name);
    macro.nested = scopes_ > 0;
    TRY_VOID(parameters(macro, line));
    TRY(macro.body, captured_block("macro", line, "endmacro"));
    return stmt;
  }

  // `(a, b=1)`
  Status parameters(Macro& macro, std::uint32_t line) {
    TRY_VOID(in_.expect_operator("("));
    while (!in_.at_operator(")")) {
      Parameter parameter;
      TRY(parameter.name, in_.expect_name("parameter"));
      parameter.symbol = symbols_.of(parameter.name);
      if (in_.skip_operator("=")) {
        TRY(parameter.fallback, expressions_.expression());
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
        return in_.fail(line, "macro '" + macro.name +
                                  "': a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
      if (!in_.skip_operator(",")) break;
    }
    return in_.expect_operator(")");
  }

  // The called macro gets the block as an argument of its own, 'caller'.
  Result<StmtPtr> call_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kOutput, line);
    stmt->macro = std::make_unique<Macro>();
    Macro& block = *stmt->macro;
    block.name = "caller";
    block.symbol = symbols_.of(block.name);
    block.of_call = true;
    if (in_.at_operator("(")) TRY_VOID(parameters(block, line));
    TRY(stmt->expr, expressions_.expression());
    if (stmt->expr->kind != ExprKind::kCall) {
      return in_.fail(line, "'call' without a call of a macro");
    }
    TRY(block.body, captured_block("call", line, "endcall"));
    auto argument = std::make_unique<Expr>();
    argument->line = line;
    argument->constant = static_cast<const Macro*>(&block);
    stmt->expr->named.emplace_back(block.name, std::move(argument));
    return stmt;
  }

  // Every value is computed before the first name is set.
  Result<StmtPtr> with_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kWith, line);
    stmt->target.kind = Target::Kind::kTuple;
    stmt->expr = std::make_unique<Expr>();
    stmt->expr->kind = ExprKind::kTuple;
    stmt->expr->line = line;
    while (in_.current().kind != TokenKind::kBlockEnd) {
      TRY(Target name, one_target(false));
      TRY_VOID(in_.expect_operator("="));
      TRY(ExprPtr value, expressions_.expression());
      stmt->target.parts.push_back(std::move(name));
      stmt->expr->args.push_back(std::move(value));
      if (!in_.skip_operator(",")) break;
    }
    ++scopes_;
    TRY(stmt->body, block("with", line, {"endwith"}));
    --scopes_;
    in_.skip_name("endwith");
    TRY_VOID(block_end());
    return stmt;
  }

  Result<StmtPtr> filter_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kFilterBlock, line);
    TRY(stmt->expr, expressions_.first_filter());
    TRY(stmt->body, captured_block("filter", line, "endfilter"));
    return stmt;
  }

  Result<StmtPtr> generation_statement(std::uint32_t line) {
    StmtPtr stmt = make(StmtKind::kScope, line);
    TRY(stmt->body, captured_block("generation", line, "endgeneration"));
    return stmt;
  }

  Result<StmtPtr> jump_statement(StmtKind kind, std::uint32_t line) {
    if (loops_ == 0) {
      return in_.fail(line, kind == StmtKind::kBreak ? "'break' outside of a loop"
                                                     : "'continue' outside of a loop");
    }
    TRY_VOID(block_end());
    return make(kind, line);
  }

  Result<Target> target(bool attributes, std::string_view end) {
    TRY(Target first, one_target(attributes));
    if (!in_.at_operator(",")) return first;
    Target all;
    all.kind = Target::Kind::kTuple;
    all.parts.push_back(std::move(first));
    while (in_.skip_operator(",")) {
      if (in_.at_operator("=") || in_.at_operator(")") || (!end.empty() && in_.at_name(end))) break;
      TRY(Target next, one_target(attributes));
      all.parts.push_back(std::move(next));
    }
    return all;
  }

  Result<Target> one_target(bool attributes) {
    const std::uint32_t line = in_.current().line;
    if (in_.skip_operator("(")) {
      if (++depth_ > limits::kTemplateDepth) {
        return in_.fail(line, "names are nested deeper than the limit of " +
                                  std::to_string(limits::kTemplateDepth));
      }
      TRY(Target inner, target(attributes, ""));
      --depth_;
      TRY_VOID(in_.expect_operator(")"));
      return inner;
    }
    if (in_.current().kind != TokenKind::kName) {
      return in_.fail(line, "expected the name of a variable, found " + in_.describe_current());
    }
    const Token token = in_.take();
    constexpr std::string_view kReserved[] = {"loop", "true",  "false", "none",
                                              "True", "False", "None"};
    if (std::find(std::begin(kReserved), std::end(kReserved), token.text) != std::end(kReserved)) {
      return in_.fail(line, "cannot assign to '" + token.text + "'");
    }
    Target one;
    one.symbol = symbols_.of(token.text);
    if (attributes && in_.skip_operator(".")) {
      one.kind = Target::Kind::kAttribute;
      TRY(one.attribute, in_.expect_name("attribute"));
    }
    return one;
  }

  Status block_end() {
    if (in_.current().kind == TokenKind::kBlockEnd) {
      in_.take();
      return ok_status();
    }
    return in_.fail(in_.current().line, "expected '%}', found " + in_.describe_current());
  }

  StmtPtr make(StmtKind kind, std::uint32_t line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  Cursor in_;
  SymbolTable symbols_;
  ExpressionParser expressions_;
  std::uint32_t depth_ = 0;
  int loops_ = 0;   // loops around the current body, within this macro
  int scopes_ = 0;  // constructs around the current place that have names of their own
};

}  // namespace

Result<std::unique_ptr<const Program>> parse_program(std::string_view source) {
  TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace hearth::model::jinja
