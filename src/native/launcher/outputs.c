/* The files that a command line names as outputs: the only ones that a replay may write. The same rules are in
   src/nvccache/records/output_names.py (`of_argv`). */

#include "launcher.h"

#include <stdlib.h>
#include <string.h>

struct arguments {
    int count;
    char **at;
    const char *cwd;
};

static const char *const output_option[] = OUTPUT_OPTION;
static const char *const depfile_option[] = DEPFILE_OPTION;
static const char *const directory_option[] = DIRECTORY_OPTION;
static const char *const options_file_option[] = OPTIONS_FILE_OPTION;
static const char *const device_link_option[] = DEVICE_LINK_OPTION;
static const char *const target_option[] = TARGET_OPTION;
static const char *const with_dependencies[] = WITH_DEPENDENCIES;
static const char *const queries[] = QUERIES;

/* The part of an argument after its first `=`; empty without one. */
static const char *value_in(const char *word)
{
    const char *sign = strchr(word, '=');

    return sign ? sign + 1 : "";
}

static int begins(const char *word, const char *const *option)
{
    size_t length = strcspn(word, "=");

    for (; *option; option++)
        if (strncmp(word, *option, length) == 0 && !(*option)[length])
            return 1;
    return 0;
}

static int is_complete(const char *word)
{
    static const char *const complete[] = COMPLETE_WORDS, *const glued[] = GLUED;

    if (is_one_of(word, complete) || *value_in(word))
        return 1;
    for (const char *const *start = glued; *start; start++)
        if (strncmp(word, *start, 2) == 0 && word[2])
            return 1;
    return 0;
}

/* Whether an argument is an option and not the value of the one before. */
static int stands_alone(int index, const struct arguments *arguments)
{
    return index == 0 || *arguments->at[index - 1] != '-' || is_complete(arguments->at[index - 1]);
}

/* The value of an option given once, empty if it is not given; NULL in case of doubt. */
static const char *value_of(const char *const *option, const struct arguments *arguments)
{
    const char *value = "";
    int found = 0;

    for (int index = 0; index < arguments->count; index++) {
        const char *word = arguments->at[index];

        if (!begins(word, option))
            continue;
        if (found++ || !stands_alone(index, arguments))
            return NULL;
        if (strchr(word, '='))
            value = value_in(word);
        else
            value = index + 1 < arguments->count ? arguments->at[index + 1] : "";
        if (!*value || *value == '-')
            return NULL;
    }
    return value;
}

/* Name the product after the only source; 0 if an argument is ambiguous. */
static int name_after_source(const struct arguments *arguments, char *name)
{
    static const struct { const char *word, *extension; } modes[] = MODES;
    const char *source = NULL, *extension = NULL, *prepended = getenv("NVCC_PREPEND_FLAGS"),
               *appended = getenv("NVCC_APPEND_FLAGS");

    if ((prepended && *prepended) || (appended && *appended))
        return 0;
    for (int index = 0; index < arguments->count; index++) {
        const char *word = arguments->at[index];

        if (*word != '-') {
            if (source)
                return 0;
            source = word;
        } else if (!is_complete(word) || is_one_of(word, device_link_option)) {
            return 0;
        }
        if (begins(word, options_file_option))
            return 0;
        for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
            if (strcmp(word, modes[mode].word) != 0)
                continue;
            if (extension)
                return 0;
            extension = modes[mode].extension;
        }
    }
    if (!source || !extension || strlen(source) > PATH_MAX - 16)
        return 0;
    strcpy(name, name_of(source));
    if (strrchr(name, '.'))
        *strrchr(name, '.') = '\0';
    strcat(name, extension);
    return 1;
}

/* Where nvcc writes the dependency file by default, if the name of the output leaves no doubt. */
static int name_beside(const char *output, char *name)
{
    char *base, *dot;

    if (strlen(output) > PATH_MAX - 16)
        return 0;
    strcpy(name, output);
    base = (char *)name_of(name);
    dot = strrchr(base, '.');
    if (!dot || dot != strchr(base, '.') || dot == base)
        return 0;
    strcpy(dot, ".d");
    return 1;
}

static int is_of_outputs(const char *word)
{
    return begins(word, output_option) || begins(word, depfile_option) || begins(word, target_option);
}

static int takes_output(const char *word)
{
    return is_one_of(word, output_option) || is_one_of(word, depfile_option) || is_one_of(word, target_option);
}

static int leads_to(const char *path, const char *place, const char *cwd)
{
    char absolute[PATH_MAX];

    return !make_absolute(path, cwd, absolute) || strcmp(absolute, place) == 0;
}

/* Whether an argument other than an output or the rule's target names this file. */
static int may_be_read(const char *path, const struct arguments *arguments)
{
    char place[PATH_MAX];
    const char *name = name_of(path);
    size_t length = strlen(name);

    if (!make_absolute(path, arguments->cwd, place))
        return 1;
    for (int index = 0; index < arguments->count; index++) {
        const char *word = arguments->at[index];
        size_t size = strlen(word);

        if (size < length || strcmp(word + size - length, name) != 0 || is_of_outputs(word))
            continue;
        if (index && takes_output(arguments->at[index - 1]))
            continue;
        if (leads_to(word, place, arguments->cwd) || leads_to(value_in(word), place, arguments->cwd))
            return 1;
    }
    return 0;
}

/* Whether the file has other names: then it matters whether a tool overwrites or replaces it. */
static int has_other_names(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && (S_ISLNK(status.st_mode) || status.st_nlink > 1);
}

/* Find the product, empty for a query answered on standard output, and the dependency file, empty if none is
   requested; 0 if an argument is ambiguous. */
static int find_outputs(const struct arguments *arguments, char *product, char *depfile)
{
    const char *output = value_of(output_option, arguments), *rule = value_of(depfile_option, arguments);
    int asks = 0, is_query = 0;

    if (!output || !rule || strlen(output) >= PATH_MAX || strlen(rule) >= PATH_MAX)
        return 0;
    for (int index = 0; index < arguments->count; index++) {
        if (begins(arguments->at[index], directory_option))
            return 0;
        if (is_one_of(arguments->at[index], with_dependencies))
            asks = 1;
        else if (is_one_of(arguments->at[index], queries))
            is_query = 1;
        else
            continue;
        if (!stands_alone(index, arguments))
            return 0;
    }
    strcpy(product, output);
    strcpy(depfile, rule);
    if (is_query && (asks || *depfile))
        return 0;
    if (is_query && !*product)
        return 1;
    if ((!*product && !name_after_source(arguments, product)) || (*depfile && !asks))
        return 0;
    if (asks && !*depfile && !name_beside(product, depfile))
        return 0;
    return !may_be_read(product, arguments) && !(*depfile && may_be_read(depfile, arguments)) &&
           !has_other_names(product);
}

/* Whether this file was read, by the record; the path is split as those of the record are. */
static int is_among_files(const char *path, const struct record *record)
{
    uint32_t count, directories;
    const struct replay_file *files = section(record, IN_FILES, &count);
    const uint32_t *places = section(record, IN_DIRECTORIES, &directories);
    const char *name = name_of(path);
    char directory[PATH_MAX];
    size_t length = (size_t)(name - path);

    if (length >= sizeof directory)
        return 1;
    memcpy(directory, path, length);
    directory[length > 1 ? length - 1 : length] = '\0';
    for (uint32_t index = 0; index < count; index++) {
        const char *place = files[index].directory < directories ? string(record, places[files[index].directory]) : "";

        if (strcmp(string(record, files[index].name), name) == 0 && strcmp(place, *directory ? directory : ".") == 0)
            return 1;
    }
    return 0;
}

static int was_read(const char *path, const struct record *record, const char *cwd)
{
    char absolute[PATH_MAX];

    return !make_absolute(path, cwd, absolute) || is_among_files(path, record) || is_among_files(absolute, record);
}

/* Whether a dependency file has a name before a colon; `line` ends with NUL and is changed. */
static int is_plain_line(char *line)
{
    static const char *const directives[] = MAKE_DIRECTIVES;
    char *colon = strchr(line, ':'), *from = line + strspn(line, " "), *to = line;

    if (!*from)
        return 1;
    if (!colon)
        return 0;
    while (colon > from && colon[-1] == ' ')
        colon--;
    while (from < colon) {
        if (from[0] == '\\' && from[1] == ' ' && from + 1 < colon) {
            from += 2;
            continue;
        }
        if (*from == ' ')
            return 0;
        *to++ = *from++;
    }
    *to = '\0';
    return *line && !is_one_of(line, directives);
}

/* Whether a dependency file only lists dependencies, so that make runs nothing of it. */
static int is_plain_rule(const char *text, uint64_t size)
{
    static const unsigned char meant[] = MEANT_FOR_MAKE;
    char *copy = malloc(size + 1), *end = copy;
    int is_plain = copy != NULL;

    for (uint64_t at = 0; is_plain && at < size; at++) {
        if (memchr(meant, (unsigned char)text[at], sizeof meant))
            is_plain = 0;
        else if (text[at] == '\\' && at + 1 < size && text[at + 1] == '\n')
            *end++ = ' ', at++;
        else
            *end++ = text[at];
    }
    for (char *line = copy; is_plain && line;) {
        char *next;

        *end = '\0';
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        is_plain = is_plain_line(line);
        line = next;
    }
    free(copy);
    return is_plain;
}

static struct arguments arguments_of(const struct call *call)
{
    return (struct arguments){call->argc - call->first - 1, call->argv + call->first + 1, call->cwd};
}

int asks_only(const struct call *call)
{
    struct arguments arguments = arguments_of(call);

    for (int index = 0; index < arguments.count; index++)
        if (is_one_of(arguments.at[index], queries))
            return 1;
    return 0;
}

int names_its_files(const struct call *call, const struct record *record)
{
    struct arguments arguments = arguments_of(call);
    uint32_t count, has_rule = record->head->rule;
    const struct replay_product *products = section(record, IN_PRODUCTS, &count);
    char product[2 * PATH_MAX], depfile[2 * PATH_MAX];

    if (has_rule > 1 || !find_outputs(&arguments, product, depfile) || count != has_rule + (*product != '\0'))
        return 0;
    if (!count)
        return 1;
    if (!*product || !products[has_rule].blob || strcmp(string(record, products[has_rule].path), product) != 0 || was_read(product, record, call->cwd))
        return 0;
    if (!has_rule)
        return !*depfile;
    return *depfile && !products[0].blob && strcmp(string(record, products[0].path), depfile) == 0 &&
           !was_read(depfile, record, call->cwd) && products[0].size < record->strings_size &&
           products[0].content < record->strings_size - products[0].size &&
           is_plain_rule(record->strings + products[0].content, products[0].size);
}
