#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/import/job/shell/arithmetic.hpp"
#include "core/import/job/shell/pattern.hpp"
#include "core/import/job/shell/shell.hpp"
#include "tests/support/catch.hpp"

namespace rehearse::job {
namespace {

struct Ran {
  JobFiles files;
  std::vector<ShellCommand> commands;
  std::vector<std::string> notes;

  explicit Ran(const std::string& script, std::vector<std::string> arguments = {},
               const std::map<std::string, std::string>& environment = {}) {
    Shell shell(files, environment);
    std::vector<Traced> words;
    for (const std::string& a : arguments) words.emplace_back(a, Place{});
    shell.run(files.add("job.sh", script), words);
    commands = shell.commands();
    notes = shell.notes();
  }
  /// The words of a command with bars between them; marks as a shell would write them.
  [[nodiscard]] std::string command(std::size_t k = 0) const {
    std::string out;
    for (const Traced& w : commands.at(k).words) out += (out.empty() ? "" : "|") + readable(w.text);
    return out;
  }
};

TEST_CASE("Words are split, quoted and joined as a shell does") {
  CHECK(Ran("run a  'b c' \"d  e\" f\\ g").command() == "run|a|b c|d  e|f g");
  CHECK(Ran("A='x y'\nrun $A \"$A\" ${A}z").command() == "run|x|y|x y|x|yz");
  CHECK(Ran("A=1 # a comment\nrun \\\n  --n $A \\\n  --m 2").command() == "run|--n|1|--m|2");
  CHECK(Ran("run pre{a,b} {1..3}").command() == "run|prea|preb|1|2|3");
}

TEST_CASE("Defaults, alternatives and parts of variables") {
  CHECK(Ran("run ${N:-4} ${N-5} ${M:=6} $M").command() == "run|4|5|6|6");
  CHECK(Ran("N=8\nrun ${N:-4} ${N:+set} ${X:+unset}end").command() == "run|8|set|end");
  CHECK(Ran("F=/a/b/train.sh\nrun ${F##*/} ${F%.sh} ${F%/*} ${F/train/run} ${#F} ${F:3:1}").command() ==
        "run|train.sh|/a/b/train|/a/b|/a/b/run.sh|13|b");
  CHECK(Ran("M=BF16\nrun --${M,,} ${M^^}").command() == "run|--bf16|BF16");
  CHECK(Ran("A=B\nB=7\nrun ${!A}").command() == "run|7");
}

TEST_CASE("Whole numbers are counted") {
  CHECK(Ran("G=8\nN=4\nrun $((G * N / 2)) $(( (G+1)%4 )) $((N>3?1:0)) $((2**5))").command() == "run|16|1|1|32");
  CHECK(Ran("N=3\nlet N=N+1\n((N++))\nrun $N $(expr $N '*' 2)").command() == "run|5|10");
  const CountedNames none{[](const std::string&) { return std::string(); }, [](const std::string&, std::int64_t) {}};
  CHECK_FALSE(count("8 / 0", none, "job.sh:1").unknown.empty());
  CHECK_THROWS_AS(count("8 +", none, "job.sh:1"), Error);
}

TEST_CASE("Arrays keep their items, and may be built from themselves") {
  const Ran r("A=(--x 1 # why\n  --y \"2 3\")\nA=(\"${A[@]}\" --z)\nA+=(end)\nrun \"${A[@]}\" ${#A[@]} ${A[1]}");
  CHECK(r.command() == "run|--x|1|--y|2 3|--z|end|6|1");
  CHECK(Ran("declare -A T=([small]=\"1 2\" [large]='3 4')\nM=large\nC=(${T[$M]})\nrun ${C[1]}").command() == "run|4");
}

TEST_CASE("Conditions that can be decided are") {
  CHECK(Ran("M=7B\nif [ $M = 13B ]; then L=40; elif [[ $M == 7* ]]; then L=32; else L=1; fi\nrun $L").command() ==
        "run|32");
  CHECK(Ran("case ${T:-small} in\n small|tiny) L=2;;\n *) L=9;;\nesac\nrun $L").command() == "run|2");
  CHECK(Ran("[ -z \"$X\" ] && Y=empty || Y=set\nrun $Y").command() == "run|empty");
  CHECK(Ran("for i in 1 2; do run $i; done").commands.size() == 2);
  CHECK(Ran("i=0\nwhile [ $i -lt 3 ]; do run $i; i=$((i+1)); done").commands.size() == 3);
  CHECK(Ran("f() { local L=$1; run --l $L \"$@\"; }\nf 3 4").command() == "run|--l|3|3|4");
}

TEST_CASE("What hangs on something unknown is not met, and noted") {
  const Ran r("if [ $RANK -eq 0 ]; then run a; else run b; fi");
  CHECK(r.command() == "run|b");
  REQUIRE(r.notes.size() == 1);
  CHECK(r.notes[0].find("job.sh:1") == 0);
  CHECK(r.notes[0].find("RANK") != std::string::npos);
}

TEST_CASE("What nothing sets becomes a mark that names it") {
  const Ran r("G=$(nvidia-smi -L | wc -l)\nrun $NNODES $((NNODES * 8)) $G \"$1\"");
  CHECK(first_unknown(r.commands.at(0).words.at(1).text) == "NNODES");
  CHECK(first_unknown(r.commands.at(0).words.at(2).text) == "NNODES");
  CHECK(first_unknown(r.commands.at(0).words.at(3).text).find("nvidia-smi") != std::string::npos);
  CHECK(Ran("G=$(nvidia-smi -L | wc -l)\nrun $G", {}, {{"G", "8"}}).command() == "run|8");
  CHECK(Ran("run $1 ${2:-x}", {"a"}).command() == "run|a|x");
}

TEST_CASE("Here-documents are files, and scripts") {
  const Ran r("B=16\ncat > ds.json <<EOF\n{\"batch\": $B}\nEOF\ncat <<'EOF' > raw\n$B\nEOF\nrun");
  JobFiles files = r.files;
  CHECK(files.at(files.find("ds.json", 0)).text.text == "{\"batch\": 16}\n");
  CHECK(files.at(files.find("raw", 0)).text.text == "$B\n");
  CHECK(Ran("N=2\nsbatch <<EOF\n#SBATCH --nodes=$N\nsrun python train.py --n \\$SLURM_NNODES\nEOF").command() ==
        "srun|python|train.py|--n|2");
  CHECK(Ran("T='{\"b\": BATCH}'\necho \"$T\" | sed \"s/BATCH/8/\" > c.json\ncat c.json > d.json\nrun").files.count() >=
        3);
}

TEST_CASE("Words know the line where they were written, through variables") {
  const Ran r("A=\"--one 1 \\\n --two 2\"\n\nrun $A\n");
  REQUIRE(r.commands.at(0).words.size() == 5);
  CHECK(r.files.where(r.commands[0].words[1].place()) == "job.sh:1");
  CHECK(r.files.where(r.commands[0].words[3].place()) == "job.sh:2");
}

TEST_CASE("Scripts that never end, or end too early, are refused with their line") {
  CHECK_THROWS_AS(Ran("while true; do :; done; run \"a"), Error);
  try {
    Ran("A=1\nif [ $A ]; then\nrun\n");
    FAIL("an 'if' without 'fi' was read");
  } catch (const Error& e) {
    CHECK(e.where == "job.sh:2");
  }
  CHECK(Ran("while true; do :; done; run a").command() == "run|a");
  CHECK(Ran("f() { f; }; f; run a").command() == "run|a");
}

TEST_CASE("Patterns") {
  CHECK(fits_pattern("DGXH100", "DGX*"));
  CHECK(fits_pattern("a1", "[a-c][0-9]"));
  CHECK_FALSE(fits_pattern("d1", "[a-c]?"));
  CHECK(fits_pattern("x*y", "x\\*y"));
  CHECK_FALSE(fits_pattern("xay", "x\\*y"));
}

}  // namespace
}  // namespace rehearse::job
