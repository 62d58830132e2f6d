# Completion of fsarena for bash: `fsarena completions bash` prints it.
_fsarena() {
    # Bash breaks words at = and at :, which values of fsarena contain. They are joined again, and from the answers is
    # cut what stands before the last break.
    local words=() i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${words[-1]} == *[=:] ]]; then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    local IFS=$'\v' current=${words[-1]}
    COMPREPLY=($(COMPLETE=bash _CLAP_IFS=$IFS _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) fsarena -- "${words[@]}" 2> /dev/null))
    [[ $current == *[=:]* && $COMP_WORDBREAKS == *:* ]] && COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*[=:]}"}"}")
    [[ ${COMPREPLY[0]} == *[=:/] ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -o nosort -F _fsarena fsarena
