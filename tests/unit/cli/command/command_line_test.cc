#include "cli/command/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "cli/command/variables.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The words that lead to a verb, and those that it cannot do without.
struct Verb {
  Words path;
  Words required;
  AddVerbs add = add_all_verbs;  // adds it, and what is added with it
};

std::vector<Verb> all_verbs(CLI::App& app, AddVerbs add = add_all_verbs, const Words& path = {}) {
  std::vector<Verb> verbs;
  if (!path.empty()) {
    Verb verb{path, {}, add};
    for (const CLI::Option* option : app.get_options()) {
      if (!option->get_required()) continue;
      if (!option->get_positional()) verb.required.push_back("--" + option->get_lnames().front());
      const std::map<std::string, std::string> words = {{"completion", "bash"},
                                                        {"map-port", "4000"}};
      const auto found = words.find(path.back());
      verb.required.push_back(found != words.end() ? found->second : "m");
    }
    verbs.push_back(verb);
  }
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    Words deeper = path;
    deeper.push_back(sub->get_name());
    for (Verb& verb : all_verbs(*sub, add, deeper)) verbs.push_back(std::move(verb));
  }
  return verbs;
}

CLI::App& find(CommandLine& line, const Words& path) {
  CLI::App* app = &line.app();
  for (const std::string& name : path) app = app->get_subcommand(name);
  return *app;
}

class CommandLineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    setenv("HEARTH_CONFIG", config_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HEARTH_CONFIG");
    fs::remove_all(folder_);
  }

  // What the option holds after a parse; empty when the parse refuses.
  std::optional<Words> value_of(const Verb& verb, const std::string& option, const Words& flags) {
    CommandLine line(verb.add);
    Words words = verb.path;
    words.insert(words.end(), flags.begin(), flags.end());
    for (std::size_t i = 0; i < verb.required.size(); ++i) {
      if (verb.required[i] == option)
        ++i;  // given by the caller
      else
        words.push_back(verb.required[i]);
    }
    try {
      line.parse(words);
    } catch (const CLI::ParseError&) {
      return std::nullopt;
    }
    return find(line, verb.path).get_option(option)->results();
  }

  std::string error_of(const Words& words) {
    CommandLine line(add_all_verbs);
    try {
      line.parse(words);
    } catch (const CLI::ParseError& error) {
      return line.usage_error(error);
    }
    return "";
  }

  void write_config(const std::string& text) { std::ofstream(config_) << text; }

  fs::path folder_ = fs::temp_directory_path() / ("hearth-line-" + std::to_string(getpid()));
  fs::path config_ = folder_ / "hearth.toml";
};

TEST_F(CommandLineTest, EveryOptionHasItsVariable) {
  CommandLine line(add_all_verbs);
  std::map<std::string, std::string> flag_of;  // one variable, one meaning: one flag
  std::set<std::string> exceptions;
  for (const Verb& verb : all_verbs(line.app())) {
    for (const CLI::Option* option : options_with_variables(find(line, verb.path))) {
      const std::string flag = option->get_lnames().front();
      const std::string name = option->get_envname();
      std::string expected = "HEARTH_";
      for (const char c : flag) expected += c == '-' ? '_' : static_cast<char>(std::toupper(c));
      if (name != expected) exceptions.insert(verb.path.back() + " --" + flag + " " + name);
      EXPECT_EQ(flag_of.emplace(name, flag).first->second, flag) << name;
    }
  }
  EXPECT_GT(flag_of.size(), 40U);
  EXPECT_EQ(exceptions,
            (std::set<std::string>{
                "audit --key HEARTH_LEDGER_KEY", "create --account HEARTH_KEY_ACCOUNT",
                "create --admin HEARTH_KEY_ADMIN", "create --min-level HEARTH_KEY_MIN_LEVEL",
                "create --models HEARTH_KEY_MODELS", "create --rate HEARTH_KEY_RATE",
                "create --trust HEARTH_KEY_TRUST", "create --verify HEARTH_KEY_VERIFY",
                "ledger --key HEARTH_LEDGER_KEY", "migrate --to HEARTH_STORE_TO",
                "pull --name HEARTH_PULL_NAME", "top --key HEARTH_LEDGER_KEY",
                "update --check HEARTH_UPDATE_CHECK", "update --from HEARTH_UPDATE_FROM",
                "update --key HEARTH_UPDATE_KEY", "verify --key HEARTH_LEDGER_KEY"}));
  EXPECT_EQ(line.app().get_option("--config")->get_envname(), "HEARTH_CONFIG");
}

TEST_F(CommandLineTest, HelpShowsTheVariables) {
  CommandLine line(add_all_verbs);
  EXPECT_THROW(line.parse({"run", "--help"}), CLI::CallForHelp);
  const std::string help = find(line, {"run"}).help();
  for (const CLI::Option* option : options_with_variables(find(line, {"run"}))) {
    EXPECT_NE(help.find("(Env:" + option->get_envname() + ")"), std::string::npos)
        << option->get_name();
  }
}

// Two values that the option takes, and takes apart.
std::vector<std::string> candidates() {
  return {"true",
          "false",
          "127.0.0.1:1001",
          "127.0.0.1:1002",
          "127.0.0.1:1003",
          "192.0.2.1",
          "192.0.2.2",
          "192.0.2.3",
          "0.25",
          "0.5",
          "1",
          "2",
          "3",
          "100",
          "200",
          "1GiB",
          "2GiB",
          "info",
          "warn",
          "error",
          "auto",
          "client",
          "admin",
          "cpu",
          "cuda",
          "alpha",
          "beta",
          "gamma",
          "latency",
          "throughput",
          "spot",
          "full",
          "regular",
          "veteran",
          "alpha:0-1",
          "beta:0-1",
          "22:00-08:00",
          "23:00-07:00",
          "09:00-17:00",
          "10G",
          "25G",
          "h100",
          "rtx4090",
          std::string(64, 'a'),
          std::string(64, 'b'),
          std::string(64, 'c')};
}

TEST_F(CommandLineTest, FlagBeatsVariableBeatsFileForEveryOption) {
  CommandLine tree(add_all_verbs);
  // Each verb in a tree of its own group: the whole tree takes most of the time of a parse.
  std::vector<Verb> verbs;
  for (const AddVerbs add :
       {add_client_verbs, add_observing_verbs, add_server_verbs, add_owner_verbs, add_access_verbs,
        add_cluster_verbs, add_ledger_verbs, add_machine_verbs}) {
    CommandLine group(add);
    for (Verb& verb : all_verbs(group.app(), add)) verbs.push_back(std::move(verb));
  }
  ASSERT_EQ(verbs.size(), all_verbs(tree.app()).size());
  std::size_t tested = 0;
  std::map<std::string, Words> of_type;  // what another option of the same type took
  for (const Verb& verb : verbs) {
    for (const CLI::Option* option : options_with_variables(find(tree, verb.path))) {
      const std::string flag = "--" + option->get_lnames().front();
      Words needed;  // options without which this one is refused
      for (const CLI::Option* other : option->get_needs()) {
        needed.push_back("--" + other->get_lnames().front() + "=word");
      }
      const auto by_flag = [&](const std::string& value) {
        Words words = needed;
        words.push_back(flag + "=" + value);
        return value_of(verb, flag, words);
      };
      Words tried = of_type[option->get_type_name()];
      for (const std::string& value : candidates()) tried.push_back(value);
      Words values;
      for (const std::string& value : tried) {
        if (values.size() == 3) break;
        if (std::ranges::find(values, value) == values.end() && by_flag(value))
          values.push_back(value);
      }
      ASSERT_GE(values.size(), 2U) << flag;
      of_type[option->get_type_name()] = values;
      if (values.size() == 2) values.push_back(values[0]);  // a flag has but two
      const std::array given = {by_flag(values[0]), by_flag(values[1]), by_flag(values[2])};
      std::string table;
      for (const std::string& name : verb.path) table += (table.empty() ? "" : ".") + name;
      write_config("[" + table + "]\n" + flag.substr(2) + " = \"" + values[0] + "\"\n");
      const std::string where = table + " " + flag;
      EXPECT_EQ(value_of(verb, flag, needed), given[0]) << where << " in the file";
      setenv(option->get_envname().c_str(), values[1].c_str(), 1);
      EXPECT_EQ(value_of(verb, flag, needed), given[1]) << where << " variable over file";
      EXPECT_EQ(by_flag(values[2]), given[2]) << where << " flag over both";
      write_config("");
      EXPECT_EQ(value_of(verb, flag, needed), given[1]) << where << " variable alone";
      unsetenv(option->get_envname().c_str());
      ++tested;
    }
  }
  EXPECT_GT(tested, 55U);
}

TEST_F(CommandLineTest, AVariableOfAnotherVerbDoesNotMatter) {
  setenv("HEARTH_TOP_K", "x", 1);
  EXPECT_EQ(error_of({"ls"}), "");
  EXPECT_EQ(error_of({"run", "m", "hi"}),
            "--top-k: 'x' is refused; it must be a whole number from 0 to 2147483647 "
            "(from HEARTH_TOP_K)");
  EXPECT_EQ(error_of({"run", "m", "hi", "--top-k", "y"}),
            "--top-k: 'y' is refused; it must be a whole number from 0 to 2147483647");
  unsetenv("HEARTH_TOP_K");
}

TEST_F(CommandLineTest, SwitchesTakeWords) {
  for (const char* word : {"true", "1", "on", "enabled", "yes"}) {
    setenv("HEARTH_OFFLINE", word, 1);
    EXPECT_EQ(error_of({"pull", "x"}), "") << word;
  }
  setenv("HEARTH_OFFLINE", "maybe", 1);
  EXPECT_EQ(error_of({"pull", "x"}),
            "--offline: 'maybe' is refused; it must be true or false (from HEARTH_OFFLINE)");
  setenv("HEARTH_OFFLINE", "", 1);  // as if it were not there
  EXPECT_EQ(error_of({"pull", "x"}), "");
  unsetenv("HEARTH_OFFLINE");
}

TEST_F(CommandLineTest, WrongWordsComeFirstAndTheNearestIsNamed) {
  EXPECT_EQ(error_of({"stauts"}), "unknown command 'stauts'; did you mean 'status'?");
  EXPECT_EQ(error_of({"bogus"}), "unknown command 'bogus'");
  EXPECT_EQ(error_of({"uninstall"}), "unknown command 'uninstall'");
  EXPECT_EQ(error_of({"run", "--nope"}), "unknown option '--nope' of hearth run");
  EXPECT_EQ(error_of({"run", "m", "hi", "--tmep=3"}),
            "unknown option '--tmep' of hearth run; did you mean '--temp'?");
  EXPECT_EQ(error_of({"bench", "modle"}), "unknown command 'modle'; did you mean 'model'?");
  EXPECT_EQ(error_of({"status", "extra"}), "unexpected word 'extra' after hearth status");
  EXPECT_EQ(error_of({"bench"}), "no command given; commands of hearth bench are model");
  EXPECT_TRUE(error_of({}).starts_with("no command given; commands of hearth are run, "));
  EXPECT_EQ(error_of({"\x1b[2J"}).find('\x1b'), std::string::npos);
}

TEST_F(CommandLineTest, AMissingWordIsDescribed) {
  EXPECT_EQ(error_of({"show"}),
            "model is required: file or pulled name; hearth ps names the models being served, "
            "hearth ls those on this disk");
  EXPECT_TRUE(error_of({"ping"}).starts_with("node is required: ")) << error_of({"ping"});
  EXPECT_EQ(error_of({"completion"}), "shell is required: bash, zsh or fish");
}

TEST_F(CommandLineTest, WordsOfOtherProgramsAreKnown) {
  EXPECT_EQ(error_of({"stop"}), "");
  EXPECT_EQ(error_of({"rm", "m"}), "");
  EXPECT_EQ(error_of({"serve", "m"}), "");
  EXPECT_EQ(value_of({{"serve"}, {}}, "--model", {"--model=m"}), Words{"m"});
  CommandLine line(add_all_verbs);
  EXPECT_THROW(line.parse({"help"}), CLI::CallForHelp);
  CommandLine deeper(add_all_verbs);
  EXPECT_THROW(deeper.parse({"help", "key", "create"}), CLI::CallForHelp);
}

TEST_F(CommandLineTest, HelpFitsAScreenOf80Columns) {
  CommandLine line(add_all_verbs);
  std::vector<std::string> helps = {line.app().help()};
  for (const Verb& verb : all_verbs(line.app())) helps.push_back(find(line, verb.path).help());
  helps.push_back(line.app().help("", CLI::AppFormatMode::All));
  for (const std::string& help : helps) {
    std::istringstream lines(help);
    for (std::string one; std::getline(lines, one);) {
      const bool one_word = one.find(' ', one.find_first_not_of(' ')) == std::string::npos;
      EXPECT_TRUE(one.size() <= 80 || one_word) << one;
    }
  }
}

// Of a broken table only its own verb takes notice, and it names the file.
TEST_F(CommandLineTest, ABadValueOfTheFileNamesItsTable) {
  write_config("[run]\nseed = \"\"\n");
  EXPECT_EQ(error_of({"status"}), "");
  EXPECT_TRUE(error_of({"run", "m", "hi"}).ends_with(" (from [run] of " + config_.string() + ")"))
      << error_of({"run", "m", "hi"});
}

TEST_F(CommandLineTest, AFileMayBeginWithTheMarkOfItsEncoding) {
  write_config("\xEF\xBB\xBF[run]\ntop-k = 3\n");
  EXPECT_EQ(value_of({{"run"}, {"m"}}, "--top-k", {}), Words{"3"});
}

TEST_F(CommandLineTest, OneTableHoldsForAWorkerHoweverItWasStarted) {
  for (const auto& [table, other] : {std::pair("worker", "join"), std::pair("join", "worker")}) {
    write_config(std::string("[") + table + "]\nhours = \"22:00-08:00\"\n");
    for (const char* verb : {table, other}) {
      EXPECT_EQ(value_of({{verb}, {}}, "--hours", {}), Words{"22:00-08:00"})
          << table << " " << verb;
    }
  }
  write_config(
      "[worker]\nhours = \"22:00-08:00\"\n[join]\nhours = \"01:00-02:00\"\nwait = \"1m\"\n");
  EXPECT_EQ(value_of({{"join"}, {}}, "--hours", {}), Words{"01:00-02:00"});
  EXPECT_EQ(value_of({{"worker"}, {}}, "--hours", {}), Words{"22:00-08:00"});
}

TEST_F(CommandLineTest, UnknownKeysOfTheFileNameTheNearest) {
  const std::string file = "configuration file " + config_.string() + ": ";
  write_config("[run]\ntop_k = 3\n");
  EXPECT_EQ(error_of({"ls"}), file + "unknown key 'top_k' of table [run]; did you mean 'top-k'?");
  write_config("[bench.model]\nn-gne = 3\n");
  EXPECT_EQ(error_of({"ls"}), file + "unknown key 'n-gne' of table [model]; did you mean 'n-gen'?");
  write_config("[srve]\nport = 3\n");
  EXPECT_EQ(error_of({"ls"}), file + "unknown table 'srve'; did you mean 'serve'?");
  write_config("[run]\ntop-k = 3\n[serve]\nport = 3\n");
  EXPECT_EQ(error_of({"ls"}), "");
}

TEST_F(CommandLineTest, RangesNameOptionAndLimits) {
  struct Case {
    Words words;
    const char* option;
    const char* limits;
  };
  const Words run = {"run", "m", "hi"};
  const Words serve = {"serve", "-m", "m"};
  const std::vector<Case> cases = {{{"--temp", "9999"}, "--temperature", "from 0 to 100"},
                                   {{"--top-p", "2"}, "--top-p", "above 0, at most 1"},
                                   {{"--top-k", "-1"}, "--top-k", "from 0 to 2147483647"},
                                   {{"--min-p", "-1"}, "--min-p", "from 0 to 1"},
                                   {{"-n", "-1"}, "--predict", "from 0 to 1048576"},
                                   {{"-n", "many"}, "--predict", "from 0 to 1048576"},
                                   {{"--repeat-penalty", "0"}, "--repeat-penalty", "at most 100"},
                                   {{"--seed", "1e99"}, "--seed", "a whole number"},
                                   {{"--timeout", "-2"}, "--timeout", "from 0 to 1000000"},
                                   {{"--stages", "0"}, "--stages", "from 1 to 512"},
                                   {{"--threads", "999"}, "--threads", "from 0 to 256"}};
  const auto check = [&](const Words& verb, const Case& wrong) {
    Words words = verb;
    words.insert(words.end(), wrong.words.begin(), wrong.words.end());
    const std::string message = error_of(words);
    EXPECT_TRUE(message.starts_with(std::string(wrong.option) + ": '" + wrong.words[1] + "'"))
        << message;
    EXPECT_NE(message.find(wrong.limits), std::string::npos) << message;
  };
  for (const Case& wrong : cases) check(run, wrong);
  check(serve, {{"--port", "99999"}, "--port", "from 0 to 65535"});
  check(serve, {{"--control-port", "-1"}, "--control-port", "from 0 to 65535"});
  check(serve, {{"--batch-rows", "0"}, "--batch-rows", "from 1 to 512"});
  check(serve, {{"--kv-budget", "0"}, "--kv-budget", "from 1 to"});
  check(serve, {{"--log-level", "loud"}, "--log-level", "trace, debug"});
  check({"status"}, {{"--wait", "-1"}, "--wait", "from 0 to 1000000"});
}

}  // namespace
}  // namespace hearth::cli
