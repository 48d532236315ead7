import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** For each line "pattern,name,name,..." (hex of UTF-8) says of each name 1 (matches) or 0; or "refused". */
class JavaMatches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(answer(line.split(",", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            Pattern pattern = Pattern.compile(text(words[0]));
            StringBuilder answer = new StringBuilder();
            for (int i = 1; i < words.length; i++) {
                answer.append(pattern.matcher(text(words[i])).matches() ? '1' : '0');
            }
            return answer.toString();
        } catch (PatternSyntaxException refused) {
            return "refused";
        }
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
